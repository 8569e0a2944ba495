// What finding a request's limits costs: nanoseconds a call, the median of the rounds, by the thread's CPU time.
//
//   match_bench [--rounds N]
//
// One limit and three limits on [user]; then policies of 10 to 100,000 limits, each with an exact match of its own, asked
// for ten of them and for all of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/random.h"
#include "policy/policy.h"

namespace penstock::policy {
namespace {

constexpr size_t kCalls = 1 << 18;

double CpuNanos() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Asked {
  std::string user;
  std::string path;
};

LimitDefinition MakeLimit(std::string name, bool keyed) {
  LimitDefinition limit;
  limit.name = std::move(name);
  if (keyed) limit.key.push_back({.attribute = "user"});
  limit.rate = Rate{core::RateKind::kFinite, 100, Seconds(60)};
  return limit;
}

std::unique_ptr<Policy> Compile(std::vector<LimitDefinition> limits) {
  PolicyDefinition definition;
  definition.domains.push_back({"api", std::move(limits), "bench", 0});
  Diagnostics diagnostics;
  auto policy = Policy::Build(definition, {}, diagnostics);
  if (policy == nullptr) {
    std::fputs(diagnostics.Text().c_str(), stderr);
    std::exit(2);
  }
  return policy;
}

// Nanoseconds a call; `find` looks the domain up in every call, as a server does.
double Measure(const Policy& policy, const std::vector<Asked>& asked, size_t attributes, int rounds) {
  std::vector<double> times;
  MatchScratch scratch;
  uint64_t matched = 0;
  for (int round = 0; round < rounds; ++round) {
    const double begin = CpuNanos();
    for (size_t i = 0; i < kCalls; ++i) {
      const Asked& one = asked[i & (asked.size() - 1)];
      const Attribute list[] = {{"user", one.user}, {"path", one.path}};
      const Domain* domain = policy.FindDomain("api");
      if (!policy.Match(*domain, {list, attributes}, scratch)) std::exit(2);
      // What a decision reads of the limit.
      for (const auto& match : scratch.matches) {
        matched += static_cast<uint64_t>(match.limit->params.capacity + match.limit->version);
      }
    }
    times.push_back((CpuNanos() - begin) / kCalls);
  }
  if (matched == 0) std::exit(2);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// A power of two of requests, each for one of the first `spread` paths of `limits`.
std::vector<Asked> Requests(size_t spread) {
  Random random(7);
  std::vector<Asked> out(1 << 17);
  for (Asked& one : out) {
    one.user = "user:" + std::to_string(random.Below(1'000'000));
    one.path = "/service/" + std::to_string(random.Below(spread));
  }
  return out;
}

std::vector<LimitDefinition> ExactLimits(size_t count) {
  std::vector<LimitDefinition> limits;
  for (size_t i = 0; i < count; ++i) {
    limits.push_back(MakeLimit("limit-" + std::to_string(i), true));
    limits.back().match.push_back({"path", {MatcherKind::kExact, "/service/" + std::to_string(i), {}, 0}, 0});
  }
  return limits;
}

int Run(int rounds) {
  const auto small = Requests(10);
  std::vector<LimitDefinition> limits;
  for (const size_t count : {1, 3}) {
    while (limits.size() < count) limits.push_back(MakeLimit("l" + std::to_string(limits.size()), true));
    std::printf("%zu limit(s) on [user]              %6.1f ns\n", count,
                Measure(*Compile(limits), small, 1, rounds));
  }
  // The same requests, so that only the number of limits differs; and requests for all of the limits, which are then
  // mostly not in the processor's cache: what is added is the memory's time, not a search.
  double ten = 0;
  for (const size_t count : {10, 1'000, 100'000}) {
    const auto policy = Compile(ExactLimits(count));
    const double same = Measure(*policy, small, 2, rounds);
    const double all = Measure(*policy, Requests(count), 2, rounds);
    if (count == 10) ten = same;
    std::printf("%6zu exact limits: %6.1f ns, %.2f of ten's speed; asked for all of them %6.1f ns\n", count,
                same, ten / same, all);
  }
  return 0;
}

}  // namespace
}  // namespace penstock::policy

int main(int argc, char** argv) {
  const bool given = argc == 3 && std::strcmp(argv[1], "--rounds") == 0;
  return penstock::policy::Run(given ? std::max(1, std::atoi(argv[2])) : 9);
}
