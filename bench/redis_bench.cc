// The library on a store: keeps so many checks in flight and tells what came of it.
//
//   redis_bench URL LIMIT IN_FLIGHT CALLS [KEYS]
//
// LIMIT is what stands in a policy behind `key: [user], `, e.g. "rate: 30/min, burst: 16". Prints one line: calls,
// seconds, CPU microseconds of this process a call, allowed, unavailable, and the latency's p50 and p99 in microseconds.
// Used by run.py, which measures the server beside it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cpu.h"
#include "penstock/limiter.h"

namespace {

using Clock = std::chrono::steady_clock;

// Each answer asks again until all calls are made. All but `run` is the library's one loop thread's.
class Load {
 public:
  Load(penstock::Limiter& limiter, uint64_t calls, uint64_t keys)
      : limiter_(limiter), calls_(calls), keys_(keys) {
    latencies_.reserve(calls);
  }

  void Run(uint64_t in_flight) {
    in_flight = std::min(in_flight, calls_);
    asked_ = in_flight;
    for (uint64_t i = 0; i < in_flight; ++i) Ask(i);
    finished_.wait(false);
  }

  uint64_t allowed() const { return allowed_; }
  uint64_t unavailable() const { return unavailable_; }
  double Latency(double part) {
    const auto at = static_cast<size_t>(part * static_cast<double>(latencies_.size() - 1));
    std::nth_element(latencies_.begin(), latencies_.begin() + static_cast<std::ptrdiff_t>(at),
                     latencies_.end());
    return static_cast<double>(latencies_[at]) / 1e3;
  }

 private:
  void Ask(uint64_t number) {
    char user[24];
    const int size =
        std::snprintf(user, sizeof user, "%llu", static_cast<unsigned long long>(number * 7'919 % keys_));
    const penstock::Attribute attribute{"user", {user, static_cast<size_t>(size)}};
    limiter_.CheckAsync(
        "one", {&attribute, 1}, {},
        [this, began = Clock::now()](const penstock::Decision& decision) { Told(decision, began); });
  }
  void Told(const penstock::Decision& decision, Clock::time_point began) {
    latencies_.push_back((Clock::now() - began).count());
    allowed_ += decision.allowed;
    unavailable_ += decision.outcome == penstock::Outcome::kUnavailable;
    if (asked_ < calls_) return Ask(asked_++);
    if (latencies_.size() == calls_) {
      finished_ = true;
      finished_.notify_one();
    }
  }

  penstock::Limiter& limiter_;
  const uint64_t calls_;
  const uint64_t keys_;
  std::atomic<uint64_t> asked_{0};
  uint64_t allowed_ = 0;
  uint64_t unavailable_ = 0;
  std::vector<int64_t> latencies_;
  std::atomic<bool> finished_{false};
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: redis_bench URL LIMIT IN_FLIGHT CALLS [KEYS]\n");
    return 2;
  }
  penstock::LimiterOptions options;
  options.engine_url = arguments[1];
  options.timeout = std::chrono::milliseconds(2'000);  // a busy machine is not what is measured
  options.policy_text = "domains:\n  one:\n    limits:\n      - {name: it, key: [user], on_failure: deny, " +
                        std::string(arguments[2]) + "}\n";
  auto limiter = penstock::Limiter::Open(options);
  if (!limiter) {
    std::fprintf(stderr, "%s\n", limiter.error().message.c_str());
    return 1;
  }
  const auto number = [&](int at, uint64_t otherwise) {
    return at < count ? std::strtoull(arguments[at], nullptr, 10) : otherwise;
  };
  for (int tries = 0; tries < 100; ++tries) {  // until it is connected
    if (limiter->Check("one", {{"user", "warm"}}).outcome != penstock::Outcome::kUnavailable) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const uint64_t calls = number(4, 100'000);
  Load load(*limiter, calls, number(5, 100'000));
  const double cpu = penstock::CpuMicros();
  const auto began = Clock::now();
  load.Run(number(3, 64));
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  std::printf("%llu %.6f %.4f %llu %llu %.1f %.1f\n", static_cast<unsigned long long>(calls), seconds,
              (penstock::CpuMicros() - cpu) / static_cast<double>(calls),
              static_cast<unsigned long long>(load.allowed()),
              static_cast<unsigned long long>(load.unavailable()), load.Latency(0.5), load.Latency(0.99));
  return load.unavailable() == 0 ? 0 : 1;
}
