#include "embedded_load.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "engine/memory/memory_engine.h"
#include "service/decider_impl.h"
#include "service/metrics.h"
#include "service/policy_store.h"

namespace penstock::app {
namespace {

// The memory engine answers inline: nothing is ever posted.
class NoExecutor final : public Executor {
 public:
  void Post(std::function<void()>) override {}
};

struct Common {
  const LoadOptions& options;
  const Clock& clock;
  engine::MemoryEngine& engine;
  service::Metrics& metrics;
  service::PolicyStore& policies;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> decided{0};
};

class Caller final : private service::Receiver {
 public:
  Caller(Common& common, uint64_t seed)
      : common_(common),
        random_(seed),
        session_(common.engine.OpenSession()),
        decider_(common.engine, *session_, executor_, common.clock, common.policies, common.metrics.AddLoop(),
                 {}) {
    core::RateSpec spec;
    spec.count = common.options.count;
    spec.period = Seconds(common.options.period_s);
    spec.burst = common.options.burst;
    request_.ad_hoc = spec;
  }

  void Run(uint64_t requests) {
    const uint32_t batch = std::clamp<uint32_t>(common_.options.pipeline, 1, engine::Batch::kMaxGroups);
    uint64_t done = 0;
    while (!common_.stop.load(std::memory_order_relaxed) && (requests == 0 || done < requests)) {
      const SteadyTime began = common_.clock.Steady();
      for (uint32_t i = 0; i < batch; ++i) {
        key_.assign("bench:");
        AppendInt(key_, static_cast<int64_t>(random_.Below(common_.options.keys)));
        request_.ad_hoc_key = key_;
        decider_.Submit(request_, *this, i);
      }
      decider_.Flush();
      report.latencies.Add(static_cast<uint64_t>((common_.clock.Steady() - began).count), batch);
      done += batch;
      common_.decided.fetch_add(batch, std::memory_order_relaxed);
    }
  }

  LoadReport report;

 private:
  void Decided(uint64_t, const Result<const Decision*>& decision) noexcept override {
    ++(!decision ? report.errors : (*decision)->allowed ? report.allowed : report.denied);
  }

  Common& common_;
  Random random_;
  NoExecutor executor_;
  const std::unique_ptr<engine::EngineSession> session_;
  service::DeciderImpl decider_;
  service::Request request_;
  std::string key_;
};

}  // namespace

Result<LoadReport> RunEmbedded(const LoadOptions& options, uint32_t threads,
                               const std::function<void(double, uint64_t)>& watch) {
  const SystemClock clock;
  engine::MemoryOptions memory;
  memory.max_keys = std::max<uint64_t>(options.keys * 2, 1'000);
  engine::MemoryEngine engine(memory, clock);
  service::Metrics metrics;
  service::PolicyStore policies(metrics);
  Common common{
      .options = options, .clock = clock, .engine = engine, .metrics = metrics, .policies = policies};
  std::vector<std::unique_ptr<Caller>> callers;
  for (uint32_t i = 0; i < threads; ++i)
    callers.push_back(std::make_unique<Caller>(common, options.seed + i));

  const uint64_t share = options.requests == 0 ? 0 : (options.requests + threads - 1) / threads;
  const SteadyTime began = clock.Steady();
  std::atomic<uint32_t> running{threads};
  std::vector<std::thread> workers;
  for (const auto& caller : callers) {
    workers.emplace_back([&running, share, one = caller.get()] {
      one->Run(share);
      running.fetch_sub(1);
    });
  }
  while (running.load() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int64_t elapsed_us = (clock.Steady() - began).count;
    const uint64_t decided = common.decided.load(std::memory_order_relaxed);
    const double done =
        options.requests > 0
            ? static_cast<double>(decided) / static_cast<double>(options.requests)
            : static_cast<double>(elapsed_us) / (static_cast<double>(options.duration_ms) * 1'000.0);
    watch(done, decided);
    if (options.requests == 0 && elapsed_us >= options.duration_ms * 1'000) common.stop = true;
  }
  for (std::thread& worker : workers) worker.join();
  LoadReport report;
  report.elapsed_us = (clock.Steady() - began).count;
  for (const auto& caller : callers) {
    report.allowed += caller->report.allowed;
    report.denied += caller->report.denied;
    report.errors += caller->report.errors;
    report.latencies.Merge(caller->report.latencies);
  }
  return report;
}

}  // namespace penstock::app
