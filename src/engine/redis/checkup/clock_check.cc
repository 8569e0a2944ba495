#include "engine/redis/checkup/clock_check.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace penstock::checkup {
namespace {

constexpr Micros kStep = Millis(20);           // beyond what the round trips explain
constexpr int64_t kMostDriftPpm = 500;         // what a time daemon slews at
constexpr Micros kDriftSpan = Seconds(1);      // shorter runs say nothing
constexpr Micros kApartWarning = Millis(500);  // between servers
constexpr Micros kApartFailed = Seconds(5);
constexpr Micros kFromUsWarning = Seconds(2);

// Server's clock minus our steady clock lies in [least, most].
struct Offset {
  int64_t least = 0;
  int64_t most = 0;
  int64_t Middle() const { return least + (most - least) / 2; }
};

Offset Of(const ClockSample& sample) {
  return {sample.server.us - sample.received.us, sample.server.us - sample.sent.us};
}

// How far two ranges are apart; 0 where they meet. Positive: `b` is ahead.
int64_t Gap(const Offset& a, const Offset& b) {
  if (b.least > a.most) return b.least - a.most;
  return b.most < a.least ? b.most - a.least : 0;
}

std::string Millis3(int64_t us) {
  const int64_t size = std::llabs(us);
  std::string fraction = std::to_string(size % 1'000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return (us < 0 ? "-" : "") + std::to_string(size / 1'000) + "." + fraction + " ms";
}

// The sample with the shortest round trip says most.
Offset Best(const std::vector<ClockSample>& samples) {
  const auto shorter = [](const ClockSample& a, const ClockSample& b) {
    return a.received - a.sent < b.received - b.sent;
  };
  return Of(*std::min_element(samples.begin(), samples.end(), shorter));
}

int64_t LargestStep(const std::vector<ClockSample>& samples) {
  int64_t largest = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    const int64_t gap = Gap(Of(samples[i - 1]), Of(samples[i]));
    if (std::llabs(gap) > std::llabs(largest)) largest = gap;
  }
  return largest;
}

// In parts per million, as far as the samples prove it.
int64_t LeastDrift(const std::vector<ClockSample>& samples) {
  const Micros span = samples.back().sent - samples.front().sent;
  if (span < kDriftSpan) return 0;
  return Gap(Of(samples.front()), Of(samples.back())) * 1'000'000 / span.count;
}

void AddServer(Finding& finding, const ServerClock& clock, EngineTime wall_at_zero) {
  const int64_t from_us = Best(clock.samples).Middle() - wall_at_zero.us;
  const int64_t step = LargestStep(clock.samples);
  const int64_t drift = LeastDrift(clock.samples);
  const std::string what = Millis3(from_us) + " from our clock";
  if (std::llabs(step) > kStep.count) {
    finding.figure = "a step of " + Millis3(step) + " while we looked";
    finding.Add(Status::kFailed, clock.where, finding.figure,
                step > 0 ? "a step forward gives every limit that much time at once"
                         : "a step back blocks buckets that are in use for at most its size",
                "let the time daemon slew the clock instead of setting it");
  } else if (std::llabs(drift) > kMostDriftPpm) {
    finding.figure = "drifts by " + std::to_string(drift) + " ppm";
    finding.Add(Status::kWarning, clock.where, finding.figure,
                "the server's second is not a second, and so are its rates",
                "look whether its time daemon runs, and whether the machine is starved");
  } else if (std::llabs(from_us) > kFromUsWarning.count) {
    finding.figure = what;
    finding.Add(Status::kWarning, clock.where, what,
                "limits go by the server's clock: calendar windows turn at its midnight, and what a caller "
                "is told in "
                "wall time differs",
                "synchronise the clocks of the server and of this machine");
  } else {
    finding.Add(Status::kOk, clock.where, what, "the server's clock is right and runs evenly");
  }
}

// Of two servers that may follow each other, the two that are furthest apart.
void AddApart(Finding& finding, std::span<const ServerClock> clocks) {
  int64_t furthest = 0;
  std::string pair;
  for (const ServerClock& a : clocks) {
    for (const ServerClock& b : clocks) {
      if (a.samples.empty() || b.samples.empty()) continue;
      const int64_t gap = Gap(Best(a.samples), Best(b.samples));
      if (gap <= furthest) continue;
      furthest = gap;
      pair = b.where + " is ahead of " + a.where;
    }
  }
  if (furthest < kApartWarning.count) return;
  finding.figure = "servers " + Millis3(furthest) + " apart";
  finding.Add(furthest >= kApartFailed.count ? Status::kFailed : Status::kWarning, pair,
              "by " + Millis3(furthest),
              "when one takes over from the other, every limit gains or waits that much",
              "synchronise the servers' clocks");
}

}  // namespace

Finding CheckClocks(std::span<const ServerClock> clocks, EngineTime wall_at_zero) {
  Finding finding("clock");
  int64_t furthest = 0;
  for (const ServerClock& clock : clocks) {
    if (clock.samples.empty()) {
      finding.Add(Status::kSkipped, clock.where, "did not answer TIME", "could not be asked",
                  "add +time to the user");
      continue;
    }
    const int64_t from_us = Best(clock.samples).Middle() - wall_at_zero.us;
    if (finding.figure.empty() || std::llabs(from_us) > std::llabs(furthest)) furthest = from_us;
    finding.figure = finding.status == Status::kOk ? Millis3(furthest) + " from our clock" : finding.figure;
    AddServer(finding, clock, wall_at_zero);
  }
  AddApart(finding, clocks);
  return finding;
}

}  // namespace penstock::checkup
