// The commands that Penstock needs of a user, and whether a user has them: each is tried, harmlessly, or asked about by
// ACL DRYRUN. docs/engines.md gives the same rules.
//
// Thread contract: pure functions over what was read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/value.h"
#include "engine/redis/options.h"

namespace penstock::checkup {

struct Need {
  std::string_view rule;  // +evalsha
  std::string_view why;
  // What to try: words with single spaces; KEY is a scratch key, CHANNEL a channel, both under the prefix, SHA a digest
  // that no script has. Changes nothing that stays.
  std::string_view probe;
  enum class Where : uint8_t { kEverywhere, kSentinel, kCluster, kReplicated } where = Where::kEverywhere;
  bool required = true;  // without it decisions are unavailable; else something is slower or later
};
std::span<const Need> Needs();
bool Applies(const Need& need, engine::redis::TopologyKind kind);

// The words of the probe.
std::vector<std::string> Probe(const Need& need, std::string_view prefix, std::string_view scratch);

// One rule for each need and for keys and channels: what ACL SETUSER takes, behind `on >password`.
std::string RecommendedRules(engine::redis::TopologyKind kind, std::string_view prefix);

struct ProbeResult {
  const Need* need = nullptr;
  std::string where;
  // The reply to the probe, or to ACL DRYRUN of it.
  Value reply;
};
// The rule that the reply says is missing: the need's own, ~prefix* or &prefix*; empty where it was not refused.
std::string MissingRule(const ProbeResult& probe, std::string_view prefix);

// "acl"
Finding CheckAccess(std::string_view user, std::string_view prefix, const std::vector<ProbeResult>& probes);

// What nobody who only decides should be allowed.
struct Danger {
  std::string_view command;  // words with single spaces
  std::string_view what;
};
std::span<const Danger> Dangers();

struct UserRights {
  std::string user;
  std::string refused;  // why they could not be asked, where they could not
  bool without_password = false;
  bool other_keys = false;  // may read a key outside the prefix
  std::vector<const Danger*> allowed;
};
// "acl-excess"
Finding CheckExcess(const UserRights& rights, engine::redis::TopologyKind kind, std::string_view prefix);

}  // namespace penstock::checkup
