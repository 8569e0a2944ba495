// What a policy says, before it is compiled: plain data that every reader (native YAML today; other projects' shapes
// later) produces, and that tests and embedders write by hand. Each part carries the line it stands on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/limit.h"
#include "core/params.h"
#include "policy/rate.h"

namespace penstock::policy {

enum class MatcherKind : uint8_t {
  kExact,  // text, byte by byte
  kGlob,   // text with * for any run of bytes
  kRegex,  // RE2, the whole value
  kCidr,   // the value is an address in the network
  kAny,    // one of the children holds
  kAll,    // all of them do
  kNot,    // the only child does not hold; true for an absent attribute
};

// Whether the text is a name of a domain, a limit or a unit: 1 to 64 of A-Z a-z 0-9 . _ -
bool IsValidName(std::string_view name);

struct Matcher {
  MatcherKind kind = MatcherKind::kExact;
  std::string text;
  std::vector<Matcher> children;
  int line = 0;
};

// One attribute's part in a match; a match is a list of them, all of which must hold.
struct Condition {
  std::string attribute;
  Matcher matcher;
  int line = 0;
};

struct KeyPart {
  std::string attribute;
  // With a mask the value is taken as an IP address: normalised and cut to this many leading bits.
  bool address = false;
  int mask4 = 32;
  int mask6 = 128;
  int line = 0;
};

struct OverrideDefinition {
  std::vector<Condition> match;
  std::optional<Rate> rate;
  std::optional<int64_t> burst;
  std::optional<int64_t> permits;
  int line = 0;
  bool broken = false;  // a reader has already reported it
};

// Where a limit's parts stand; 0 = where the limit stands.
struct LimitLines {
  int name = 0, key = 0, rate = 0, burst = 0, permits = 0, lease = 0, window = 0, timezone = 0, strict = 0,
      replicas = 0;
};

struct LimitDefinition {
  std::string name;
  std::vector<KeyPart> key;
  std::vector<Condition> match;
  std::optional<Rate> rate;  // rate xor permits
  std::optional<int64_t> burst;
  std::optional<int64_t> permits;
  std::optional<Micros> lease;
  bool strict = false;                                        // permits only
  int64_t replicas = 0;                                       // permits only
  core::Algorithm algorithm = core::Algorithm::kTokenBucket;  // kPermits follows from permits
  core::WindowKind window = core::WindowKind::kEpoch;
  std::string timezone;  // empty = UTC
  std::string unit = "requests";
  bool shadow = false;
  std::optional<core::OnFailure> on_failure;  // else the policy's
  std::vector<OverrideDefinition> overrides;
  int line = 0;
  LimitLines lines;
  bool broken = false;  // a reader has already reported it: only its name counts
};

struct DomainDefinition {
  std::string name;
  std::vector<LimitDefinition> limits;
  std::string file;
  int line = 0;
  std::string shard_by = {};  // an attribute of keys; empty = none
  int shard_by_line = 0;
};

struct PolicyDefinition {
  int64_t revision = 0;                                  // 0 = none (rule E6)
  core::OnFailure on_failure = core::OnFailure::kLocal;  // of limits that do not say their own
  std::vector<DomainDefinition> domains;
};

}  // namespace penstock::policy
