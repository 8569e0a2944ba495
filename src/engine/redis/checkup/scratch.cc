#include "engine/redis/checkup/scratch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/bytes.h"
#include "base/random.h"
#include "engine/redis/checkup/scratch_client.h"

namespace penstock::checkup {
namespace {

constexpr size_t kClients = 10;
constexpr int64_t kCapacity = 100;
constexpr uint64_t kAsksEach = 40;
constexpr size_t kTogether = 8;
constexpr Micros kPeriod = Seconds(3'600);
constexpr size_t kLatencyKeys = 64;

// 128 random bits: nobody has used this key.
std::string RandomKey() {
  unsigned char bytes[16];
  SecureRandomBytes(bytes);
  std::string out;
  AppendHex(out, bytes);
  return out;
}

// A bucket that is never full and forgotten at once: for what only takes time.
core::Limit WideLimit() { return ScratchLimit(core::Algorithm::kTokenBucket, 1'000'000, Seconds(1)); }

void Add(RaceResult& result, const Tally& tally) {
  result.admitted += tally.admitted;
  result.denied += tally.denied;
  result.unavailable += tally.unavailable;
  result.other += tally.other;
  if (tally.unavailable > 0) result.reason = ToString(tally.reason);
}

}  // namespace

core::Limit ScratchLimit(core::Algorithm algorithm, int64_t count, Micros period) {
  core::RateSpec spec;
  spec.algorithm = algorithm;
  // From the first request on: an edge of the hour must not come between.
  if (algorithm == core::Algorithm::kFixedWindow) spec.window = core::WindowKind::kFirstRequest;
  spec.count = count;
  spec.period = period;
  const Result<core::LimitParams> params = core::CompileRate(spec);
  if (!params) std::abort();  // the limits of this file are in range
  core::Limit limit;
  limit.domain = "(verify)";
  limit.name = ToString(algorithm);
  AppendSized(limit.identity, limit.domain);
  AppendSized(limit.identity, limit.name);
  limit.key_names = {"key"};
  limit.params = *params;
  return limit;
}

RaceResult Race(const ScratchParts& parts, core::Algorithm algorithm, const BeforeDrop& before_drop) {
  RaceResult result;
  result.algorithm = ToString(algorithm);
  result.capacity = kCapacity;
  Plan plan;
  plan.key = RandomKey();
  plan.times = kAsksEach;
  plan.together = kTogether;
  std::vector<std::unique_ptr<ScratchClient>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<ScratchClient>(parts.engine, parts.clock,
                                                      ScratchLimit(algorithm, kCapacity, kPeriod)));
    if (!clients.back()->WaitUntilReady(plan.key, result.reason)) return result;
  }
  const SteadyTime began = parts.clock.Steady();
  std::vector<std::future<Tally>> futures;
  for (const auto& client : clients) futures.push_back(client->Begin(plan));
  for (std::future<Tally>& future : futures) Add(result, future.get());
  result.asked = kClients * kAsksEach;
  const Micros took = parts.clock.Steady() - began;
  result.refilled = algorithm == core::Algorithm::kTokenBucket ? took.count * kCapacity / kPeriod.count : 0;

  ScratchClient& first = *clients.front();
  Plan look = plan;
  look.times = 1;
  look.cost = 0;
  if (before_drop) before_drop(first.limit(), plan.key);
  result.reset_after = first.Do(look).reset_after;
  Plan drop = plan;
  drop.times = 1;
  drop.mode = engine::Mode::kReset;
  first.Do(drop);
  const Tally left = first.Do(look);
  result.cleaned = left.admitted == 1 && left.reset_after.count == 0;
  return result;
}

Finding CheckAtomicity(const std::vector<RaceResult>& races) {
  Finding finding("atomicity");
  uint64_t asked = 0;
  for (const RaceResult& race : races) {
    asked += race.asked;
    std::string what = std::to_string(race.admitted) + " of " + std::to_string(race.asked) +
                       " admitted, capacity " + std::to_string(race.capacity);
    if (race.unavailable > 0 || race.asked == 0) {
      what += ", " + std::to_string(race.unavailable) + " unavailable (" + race.reason + ")";
    }
    const auto most = static_cast<uint64_t>(race.capacity + race.refilled);
    const auto least = static_cast<uint64_t>(race.capacity);
    if (race.admitted > most) {
      finding.figure = std::string(race.algorithm) + ": " + what;
      finding.Add(Status::kFailed, race.algorithm, what, "more was admitted than the limit allows",
                  "see that all nodes reach one and the same master, and that it is a Redis or Valkey as it "
                  "is shipped");
    } else if (race.asked == 0) {
      finding.figure = "no decision was made";
      finding.Add(Status::kFailed, race.algorithm, what, "the engine did not decide at all",
                  "the findings below say why; a node's log names the cause too");
    } else if (race.unavailable > 0 || race.other > 0) {
      if (finding.status < Status::kFailed) finding.figure = std::string(race.algorithm) + ": " + what;
      finding.Add(Status::kFailed, race.algorithm, what, "not every request was decided",
                  "see latency and acl");
    } else if (race.admitted < least) {
      finding.figure = std::string(race.algorithm) + ": " + what;
      finding.Add(Status::kFailed, race.algorithm, what, "less was admitted than the limit allows",
                  "look for who deletes or changes keys under the prefix");
    } else if (!race.cleaned) {
      finding.Add(Status::kWarning, race.algorithm, "the scratch bucket could not be dropped",
                  "a bucket of this checkup stays until its TTL has passed, at most two hours",
                  "nothing, or look whether the engine was lost during the run");
    } else {
      finding.Add(Status::kOk, race.algorithm, what, "what the limit allows was admitted, and not one more");
    }
  }
  if (finding.figure.empty()) {
    finding.figure = "exactly " + std::to_string(kCapacity) + " admitted in each of " +
                     std::to_string(races.size()) + " algorithms, " + std::to_string(asked) + " asked by " +
                     std::to_string(kClients) + " clients";
  }
  return finding;
}

DecisionLatency MeasureDecisions(const ScratchParts& parts, size_t times, Micros most) {
  DecisionLatency out;
  ScratchClient client(parts.engine, parts.clock, WideLimit());
  std::string why;
  Plan plan;
  plan.key = RandomKey();
  if (!client.WaitUntilReady(plan.key, why)) return out;
  plan.keys = kLatencyKeys;
  plan.timeout = parts.timeout;
  plan.times = kLatencyKeys;
  client.Do(plan);  // every server has been asked once
  plan.times = times;
  plan.most = most;
  Tally tally = client.Do(plan);
  out.answered = PercentilesOf(tally.decided_us);
  out.unavailable = tally.unavailable;
  return out;
}

Outage WatchOutage(const ScratchParts& parts, const std::function<bool()>& done, Micros most) {
  ScratchClient client(parts.engine, parts.clock, WideLimit());
  std::string why;
  Plan plan;
  plan.key = RandomKey();
  if (!client.WaitUntilReady(plan.key, why)) return {};
  std::atomic<bool> stop{false};
  plan.keys = kLatencyKeys;
  plan.timeout = parts.timeout;
  plan.times = UINT64_MAX;
  plan.most = most;
  plan.pause = Millis(1);
  plan.stop = &stop;
  std::future<Tally> future = client.Begin(plan);
  const SteadyTime end = parts.clock.Steady() + most;
  while (!done() && parts.clock.Steady() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  stop.store(true, std::memory_order_release);
  const Tally tally = future.get();
  return {tally.decided(), tally.unavailable, tally.longest_gap, tally.last_decided};
}

}  // namespace penstock::checkup
