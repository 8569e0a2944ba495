#include "engine/redis/checkup/latency_check.h"

#include <algorithm>

namespace penstock::checkup {
namespace {

int64_t AtRank(const std::vector<int64_t>& sorted, size_t per_mille) {
  const size_t rank = (sorted.size() * per_mille + 999) / 1'000;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

std::string Ms(int64_t us) {
  std::string fraction = std::to_string(us % 1'000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return std::to_string(us / 1'000) + "." + fraction + " ms";
}

}  // namespace

Percentiles PercentilesOf(std::vector<int64_t>& microseconds) {
  if (microseconds.empty()) return {};
  std::sort(microseconds.begin(), microseconds.end());
  return {microseconds.size(), AtRank(microseconds, 500), AtRank(microseconds, 990),
          AtRank(microseconds, 999), microseconds.back()};
}

std::string Text(const Percentiles& percentiles) {
  return "p50 " + Ms(percentiles.p50_us) + ", p99 " + Ms(percentiles.p99_us) + ", p99.9 " +
         Ms(percentiles.p999_us) + ", max " + Ms(percentiles.max_us);
}

Finding CheckLatency(const std::vector<ServerLatency>& servers, const DecisionLatency& decisions,
                     Micros timeout) {
  Finding finding("latency");
  const Percentiles& decided = decisions.answered;
  const uint64_t asked = decided.count + decisions.unavailable;
  finding.figure = "a decision: " + Text(decided) + " (time-out " + Ms(timeout.count) + ")";
  if (asked == 0) {
    finding.figure = "no decision was made";
    finding.Add(Status::kSkipped, "", finding.figure, "could not be asked");
  } else if (decisions.unavailable * 1'000 > asked) {
    finding.figure = std::to_string(decisions.unavailable) + " of " + std::to_string(asked) +
                     " decisions not within the time-out of " + Ms(timeout.count);
    finding.Add(Status::kFailed, "decisions", finding.figure,
                "more than one decision in a thousand is answered without the engine",
                "find what holds the server up (SLOWLOG GET, the network), or raise engine.timeout");
  } else if (decisions.unavailable > 0 || decided.p999_us * 2 > timeout.count) {
    finding.Add(Status::kWarning, "decisions",
                std::to_string(decisions.unavailable) + " of " + std::to_string(asked) + " unavailable; " +
                    Text(decided),
                "the slowest decisions come near the time-out: a busier day has some without the engine",
                "find what holds the server up (SLOWLOG GET, the network), or raise engine.timeout");
  } else {
    finding.Add(Status::kOk, "decisions", Text(decided), "decisions take well below the time-out");
  }
  for (const ServerLatency& server : servers) {
    if (server.ping.count == 0) {
      finding.Add(Status::kSkipped, server.where, "did not answer PING", "could not be asked");
      continue;
    }
    const bool slow = server.ping.p99_us > timeout.count;
    finding.Add(slow ? Status::kFailed : Status::kOk, server.where, "PING " + Text(server.ping),
                slow ? "the way to this server alone takes longer than a decision may"
                     : "the way to the server is short",
                slow ? "bring nodes and server together, or raise engine.timeout" : "");
  }
  return finding;
}

}  // namespace penstock::checkup
