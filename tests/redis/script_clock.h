// A clock for scripts that a test moves, back too, and keys that expire by it. A line of Lua before a script's body
// (Options::script_prelude) hides `redis` behind one that answers TIME from a setting of the server, and that keeps with
// every value the millisecond until which it is there; so what a script stores for too short a time is gone too soon, as
// it would be in a Redis whose own clock moved.
//
// The setting is repl-backlog-size, which holds 63 bits, concerns nobody here, and can be read inside a script on every
// node of a cluster, which has no key for all of them.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"
#include "redis/redis_client.h"

namespace penstock::fixtures {

// For scripts that use TIME, MGET, GET, SET … [PX ms] [NX] and DEL.
std::string_view ScriptClock();

// The command that sets it, in RESP.
std::string SetScriptClock(EngineTime now);

}  // namespace penstock::fixtures
