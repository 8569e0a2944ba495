#include "policy/check.h"

#include <algorithm>

#include "policy/calendar.h"

namespace penstock::policy {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr int64_t kMaxReplicas = 5;

// Reports under a line of its own where it is known, else under the whole's.
class Checker {
 public:
  Checker(const std::string& file, int line, Diagnostics& diagnostics)
      : file_(file), line_(line), diagnostics_(diagnostics) {}

  bool Fail(int line, std::string message) {
    diagnostics_.Error(file_, line > 0 ? line : line_, std::move(message));
    return false;
  }

  bool Match(const std::vector<Condition>& match) {
    if (match.size() > Policy::kMaxConditions) return Fail(0, "a match has at most 32 attributes");
    bool good = true;
    for (const Condition& condition : match) good &= Attribute(condition.attribute, condition.line);
    return good;
  }

  bool Key(const std::vector<KeyPart>& key) {
    if (key.size() > Policy::kMaxKeyParts) return Fail(0, "a key has at most 16 parts");
    bool good = true;
    for (size_t i = 0; i < key.size(); ++i) {
      const KeyPart& part = key[i];
      good &= Attribute(part.attribute, part.line);
      const auto same = [&](const KeyPart& other) { return other.attribute == part.attribute; };
      if (std::any_of(key.begin(), key.begin() + static_cast<ptrdiff_t>(i), same)) {
        good = Fail(part.line, "the attribute " + Quoted(part.attribute) + " stands twice in the key");
      }
      if (part.address && (part.mask4 < 0 || part.mask4 > 32 || part.mask6 < 0 || part.mask6 > 128)) {
        good = Fail(part.line, "mask4 is 0 to 32 and mask6 is 0 to 128");
      }
    }
    return good;
  }

 private:
  bool Attribute(const std::string& attribute, int line) {
    if (!attribute.empty() && attribute.size() <= Policy::kMaxAttributeNameBytes) return true;
    return Fail(line, "the attribute's name " + Quoted(attribute) + " is not 1 to 256 bytes long");
  }

  const std::string& file_;
  int line_;
  Diagnostics& diagnostics_;
};

bool CheckPermits(const LimitDefinition& limit, const BuildOptions& options, Checker& check) {
  const LimitLines& at = limit.lines;
  if (*limit.permits < 1 || *limit.permits > kMaxCost)
    return check.Fail(at.permits, "permits is 1 to 2147483647");
  if (limit.burst) return check.Fail(at.burst, "burst goes with a rate, not with permits");
  if (limit.window != core::WindowKind::kEpoch) {
    return check.Fail(at.window, "calendar and from go with a rate, not with permits");
  }
  if (limit.algorithm != core::Algorithm::kTokenBucket && limit.algorithm != core::Algorithm::kPermits) {
    return check.Fail(0, "algorithm goes with a rate, not with permits");
  }
  const Micros lease = limit.lease.value_or(Seconds(30));
  if (lease < core::kMinLease || lease > core::kMaxLease)
    return check.Fail(at.lease, "lease is 100ms to 24h");
  if (limit.replicas < 0 || limit.replicas > kMaxReplicas)
    return check.Fail(at.replicas, "replicas is 0 to 5");
  if (options.permits) return true;
  return check.Fail(at.permits,
                    "the limit " + Quoted(limit.name) + " counts permits, which this engine cannot hold yet");
}

bool CheckRate(const LimitDefinition& limit, Checker& check) {
  const LimitLines& at = limit.lines;
  if (limit.lease) return check.Fail(at.lease, "lease goes with permits");
  if (limit.strict) return check.Fail(at.strict, "strict goes with permits");
  if (limit.replicas != 0) return check.Fail(at.replicas, "replicas goes with permits");
  if (limit.algorithm == core::Algorithm::kPermits)
    return check.Fail(0, "a limit with permits needs permits");
  const bool calendar = core::IsCalendar(limit.window);
  if (limit.window != core::WindowKind::kEpoch && limit.algorithm != core::Algorithm::kFixedWindow) {
    return check.Fail(at.window,
                      std::string(calendar ? "calendar" : "from") + " goes with algorithm fixed_window only");
  }
  if (limit.burst && limit.algorithm != core::Algorithm::kTokenBucket) {
    return check.Fail(at.burst, "burst goes with algorithm token_bucket only");
  }
  if (limit.timezone.empty()) return true;
  if (!calendar) return check.Fail(at.timezone, "timezone goes with calendar only");
  const auto known = KnownZone(limit.timezone);
  return known ? true : check.Fail(at.timezone, known.error().message);
}

}  // namespace

bool IsValidName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool CheckLimit(const LimitDefinition& limit, const std::string& file, const BuildOptions& options,
                Diagnostics& diagnostics) {
  Checker check(file, limit.line, diagnostics);
  const LimitLines& at = limit.lines;
  if (limit.name.empty()) return check.Fail(0, "a limit needs a name");
  if (!IsValidName(limit.name)) {
    return check.Fail(at.name, "the name " + Quoted(limit.name) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  if (!IsValidName(limit.unit)) {
    return check.Fail(0, "the unit " + Quoted(limit.unit) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  bool good = check.Match(limit.match);
  good &= check.Key(limit.key);
  if (limit.rate && limit.permits) return check.Fail(at.permits, "a limit has a rate or permits, not both");
  if (limit.permits) return CheckPermits(limit, options, check) && good;
  if (!limit.rate) return check.Fail(0, "the limit " + Quoted(limit.name) + " needs a rate or permits");
  return CheckRate(limit, check) && good;
}

bool CheckOverride(const LimitDefinition& limit, const OverrideDefinition& change, const std::string& file,
                   Diagnostics& diagnostics) {
  Checker check(file, change.line, diagnostics);
  if (change.match.empty()) return check.Fail(0, "an override needs a match");
  bool good = check.Match(change.match);
  if (change.permits && !limit.permits) {
    return check.Fail(0, "the limit has a rate, so its override has one too, not permits");
  }
  if (limit.permits && (change.rate || change.burst)) {
    return check.Fail(0, "the limit has permits, so its override has permits too, not a rate");
  }
  if (!change.rate && !change.burst && !change.permits) {
    return check.Fail(0, "an override changes rate, burst or permits, and this one changes nothing");
  }
  if (change.burst && limit.algorithm != core::Algorithm::kTokenBucket) {
    return check.Fail(0, "burst goes with algorithm token_bucket only");
  }
  if (change.permits && (*change.permits < 1 || *change.permits > kMaxCost)) {
    return check.Fail(0, "permits is 1 to 2147483647");
  }
  return good;
}

}  // namespace penstock::policy
