#include "api/ad_hoc_limit.h"

#include <iterator>
#include <string>

#include "base/bytes.h"
#include "penstock/request.h"
#include "policy/identity.h"
#include "policy/rate.h"

namespace penstock::api {
namespace {

constexpr Micros kUsualLease = Seconds(30);  // a policy's default too

Result<core::Algorithm> ReadAlgorithm(std::string_view text) {
  using core::Algorithm;
  constexpr Algorithm kAll[] = {Algorithm::kTokenBucket, Algorithm::kFixedWindow, Algorithm::kSlidingWindow,
                                Algorithm::kSlidingLog};
  std::string_view names[std::size(kAll)];
  for (size_t i = 0; i < std::size(kAll); ++i) {
    names[i] = core::ToString(kAll[i]);
    if (names[i] == text) return kAll[i];
  }
  std::string message = "limit.algorithm: unknown \"" + std::string(text.substr(0, 64)) + "\"";
  const std::string_view nearest = Nearest(text, names, std::size(names));
  if (!nearest.empty()) message += ", did you mean \"" + std::string(nearest) + "\"";
  return Invalid(std::move(message));
}

Result<core::RateSpec> ReadPermits(const AdHocText& text) {
  if (text.burst || !text.algorithm.empty() || !text.from.empty()) {
    return Invalid("limit.permits: burst, algorithm and from go with a rate, not with permits");
  }
  if (*text.permits < 1 || *text.permits > kMaxCost) {
    return Invalid("limit.permits: must be from 1 to " + std::to_string(kMaxCost));
  }
  Micros lease = kUsualLease;
  if (!text.lease.empty()) {
    const Result<Micros> read = policy::ParseDuration(text.lease);
    if (!read) return Invalid("limit.lease: " + read.error().message);
    lease = *read;
  }
  if (lease < core::kMinLease || lease > core::kMaxLease) {
    return Invalid("limit.lease: must be from 100ms to 24h");
  }
  return AdHocPermits(*text.permits, lease);
}

}  // namespace

core::RateSpec AdHocPermits(int64_t permits, Micros lease) {
  core::RateSpec spec;
  spec.algorithm = core::Algorithm::kPermits;
  spec.count = permits;
  spec.period = lease;
  return spec;
}

Result<core::RateSpec> ReadAdHocLimit(const AdHocText& text) {
  if (text.permits) {
    if (!text.rate.empty()) return Invalid("limit: has a rate or permits, not both");
    return ReadPermits(text);
  }
  if (!text.lease.empty()) return Invalid("limit.lease: goes with permits, not with a rate");
  const Result<policy::Rate> rate = policy::ParseRate(text.rate);
  if (!rate) return Invalid("limit.rate: " + rate.error().message);
  core::RateSpec spec;
  spec.kind = rate->kind;
  spec.count = rate->count;
  spec.period = rate->period;
  if (spec.kind == core::RateKind::kFinite && spec.period.count == 0) {
    return Invalid("limit.rate: needs a period, such as 100/min");
  }
  if (!text.algorithm.empty()) {
    const Result<core::Algorithm> algorithm = ReadAlgorithm(text.algorithm);
    if (!algorithm) return tl::unexpected(algorithm.error());
    spec.algorithm = *algorithm;
  }
  if (!text.from.empty()) {
    if (text.from != "first_request" || spec.algorithm != core::Algorithm::kFixedWindow) {
      return Invalid("limit.from: only \"first_request\" with the algorithm fixed_window");
    }
    spec.window = core::WindowKind::kFirstRequest;
  }
  if (text.burst) {
    if (spec.algorithm != core::Algorithm::kTokenBucket)
      return Invalid("limit.burst: only with token_bucket");
    spec.burst = *text.burst;
  }
  return spec;
}

}  // namespace penstock::api
