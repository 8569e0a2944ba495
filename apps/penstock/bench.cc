// `penstock bench`: how many decisions a second, and how long each took.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "commands.h"
#include "embedded_load.h"
#include "load.h"
#include "progress.h"

namespace penstock::app {
namespace {

struct Plan {
  LoadOptions load;
  bool embedded = false;
};

Result<Plan> MakePlan(const BenchFlags& flags) {
  Plan plan;
  plan.embedded = flags.what == "embedded";
  LoadOptions& load = plan.load;
  load.protocol = flags.what == "http" ? LoadProtocol::kHttp : LoadProtocol::kResp;
  if (!plan.embedded) {
    const std::string fallback = flags.what == "http" ? "127.0.0.1:8080" : "127.0.0.1:6380";
    const Result<Endpoint> target = ParseEndpoint(flags.target.empty() ? fallback : flags.target);
    if (!target) return tl::unexpected(target.error());
    load.target = *target;
    load.token = TokenFromEnvironment();
  }
  load.connections = flags.connections;
  load.pipeline = flags.pipeline > 0 ? flags.pipeline : plan.embedded ? 64 : flags.what == "resp" ? 32 : 1;
  load.requests = flags.requests;
  load.duration_ms = static_cast<int64_t>(flags.seconds * 1'000);
  load.keys = flags.keys;
  load.burst = flags.burst;
  load.count = flags.count;
  load.period_s = flags.period_s;
  load.seed = flags.seed;
  return plan;
}

uint64_t PerSecond(const LoadReport& report) {
  return report.elapsed_us <= 0 ? 0
                                : static_cast<uint64_t>(static_cast<double>(report.answers()) * 1e6 /
                                                        static_cast<double>(report.elapsed_us));
}

void PrintJson(const BenchFlags& flags, const LoadOptions& load, const LoadReport& report) {
  const Latencies& times = report.latencies;
  std::printf("{\"what\":\"%s\",\"connections\":%u,\"pipeline\":%u,\"threads\":%u,\"keys\":%" PRIu64
              ",\"answers\":%" PRIu64 ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"errors\":%" PRIu64
              ",\"elapsed_us\":%" PRId64 ",\"per_second\":%" PRIu64 ",\"p50_us\":%" PRIu64
              ",\"p90_us\":%" PRIu64 ",\"p99_us\":%" PRIu64 ",\"p99_9_us\":%" PRIu64 ",\"max_us\":%" PRIu64
              "}\n",
              flags.what.c_str(), flags.what == "embedded" ? 0 : load.connections, load.pipeline,
              flags.what == "embedded" ? flags.threads : 1, load.keys, report.answers(), report.allowed,
              report.denied, report.errors, report.elapsed_us, PerSecond(report), times.Percentile(0.5),
              times.Percentile(0.9), times.Percentile(0.99), times.Percentile(0.999), times.max_us());
}

void PrintText(const BenchFlags& flags, const LoadOptions& load, const LoadReport& report) {
  if (flags.what == "embedded") {
    std::printf("embedded, %u thread%s, batches of %u, %" PRIu64 " keys\n", flags.threads,
                flags.threads == 1 ? "" : "s", load.pipeline, load.keys);
  } else {
    std::printf("%s at %s, %u connections, pipeline %u, %" PRIu64 " keys\n", flags.what.c_str(),
                load.target.Text().c_str(), load.connections, load.pipeline, load.keys);
  }
  std::printf("  %" PRIu64 " decisions in %.2f s: %" PRIu64 " a second\n", report.answers(),
              static_cast<double>(report.elapsed_us) / 1e6, PerSecond(report));
  std::printf("  allowed %" PRIu64 ", denied %" PRIu64 ", errors %" PRIu64 "\n", report.allowed,
              report.denied, report.errors);
  const Latencies& times = report.latencies;
  std::printf("  %s p50 %" PRIu64 " us, p90 %" PRIu64 " us, p99 %" PRIu64 " us, p99.9 %" PRIu64
              " us, max %" PRIu64 " us\n",
              flags.what == "embedded" ? "batch" : "answer", times.Percentile(0.5), times.Percentile(0.9),
              times.Percentile(0.99), times.Percentile(0.999), times.max_us());
}

}  // namespace

int RunBench(const BenchFlags& flags) {
  const Result<Plan> plan = MakePlan(flags);
  if (!plan) return Complain(kExitUsage, plan.error().message);
  Result<LoadReport> report;
  {
    Progress progress("bench " + flags.what);
    const auto watch = [&progress](double share, uint64_t answers) {
      progress.Show(share, std::to_string(answers) + " decisions");
    };
    report = plan->embedded ? RunEmbedded(plan->load, flags.threads, watch) : RunLoad(plan->load, watch);
  }
  if (!report) return Complain(kExitUnavailable, report.error().message);
  (flags.json ? PrintJson : PrintText)(flags, plan->load, *report);
  return report->errors > 0 ? kExitDenied : kExitFine;
}

}  // namespace penstock::app
