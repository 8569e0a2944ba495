// A clock for scripts that a test moves, back too, and keys that expire by it. A line of Lua before a script's body
// (Options::script_prelude) hides `redis` behind one that answers TIME from a key, and that keeps with every value the
// millisecond until which it is there; so what a script stores for too short a time is gone too soon, as it would be in
// a Redis whose own clock moved.
//
// The line needs no right that the scripts themselves do not need: the user under test has the documented ones alone.
// A cluster's script reads keys of its own server only, so that the clock stands under several keys there, and the line
// takes the first that it may read. Who empties a server sets its clock again: without one every script fails.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/time.h"
#include "redis/redis_client.h"

namespace penstock::fixtures {

// For scripts that use TIME, MGET, GET, SET … [PX ms] [NX], DEL, and sorted sets with PEXPIRE.
std::string_view ScriptClock();

// One in each third of the slots, by which fixtures::Cluster deals them out. One server needs only the first.
inline constexpr std::array<std::string_view, 3> kScriptClockKeys = {"pen:{b}clock", "pen:{c}clock",
                                                                     "pen:{a}clock"};

// The command that sets it, in RESP.
std::string SetScriptClock(EngineTime now, std::string_view key = kScriptClockKeys[0]);

}  // namespace penstock::fixtures
