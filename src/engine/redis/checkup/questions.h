// The questions to one server, and its answers as the checks want them.
//
// Thread contract: one thread, which is not the loop's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/checkup/access.h"
#include "engine/redis/checkup/client.h"
#include "engine/redis/checkup/clock_check.h"
#include "engine/redis/checkup/key_check.h"
#include "engine/redis/checkup/latency_check.h"
#include "engine/redis/checkup/script_check.h"
#include "engine/redis/checkup/server_facts.h"
#include "engine/redis/script.h"

namespace penstock::checkup {

ServerFacts ReadFacts(Client& client, bool replica);
// Asks for the time a few times; appends.
void SampleClock(Client& client, ServerClock& clock);
std::vector<ScriptProbe> ProbeScripts(Client& client, std::span<const engine::redis::Script> scripts);
// Of each need that applies. `user` empty: tried as who we are; else asked by ACL DRYRUN. Empty where that cannot be
// asked, and `refused` says why.
std::vector<ProbeResult> ProbeAccess(Client& client, engine::redis::TopologyKind kind,
                                     std::string_view prefix, const std::string& user, std::string& refused);
UserRights ReadRights(Client& client, const std::string& user, std::string_view prefix);
// Looks at the keys under the prefix, at most `most` of the server's.
void CountKeys(Client& client, std::string_view prefix, uint64_t most, KeyCensus& census);
ServerLatency MeasurePing(Client& client, size_t times, Micros most);
// PTTL's answer: -1 the key has none, -2 there is no such key; kNoTtl where there is no answer.
inline constexpr int64_t kNoTtl = -3;
int64_t ReadTtl(Client& client, const std::string& key);
// CLIENT LIST, or why not.
std::string ReadClients(Client& client, std::string& refused);

}  // namespace penstock::checkup
