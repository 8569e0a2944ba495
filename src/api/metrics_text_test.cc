#include "api/metrics_text.h"

#include <gtest/gtest.h>

namespace penstock::api {
namespace {

TEST(MetricsText, HistogramBucketsAreCumulativeAndExact) {
  LatencyHistogram histogram;
  histogram.Record({4}, 2);
  histogram.Record({7}, 1);
  histogram.Record({2'000'000}, 1);
  ProtocolMetrics http;
  http.protocol = "http";
  http.connections = 3;
  histogram.AddTo(http.latency);
  service::Metrics metrics;
  std::string out;
  AppendMetrics(out, {.decisions = metrics, .engine_name = "memory", .engine = {}, .protocols = {&http, 1}});
  const auto has = [&](std::string_view line) { return out.find(line) != std::string::npos; };
  EXPECT_TRUE(has("penstock_decision_seconds_bucket{protocol=\"http\",le=\"0.000005\"} 2\n")) << out;
  EXPECT_TRUE(has("penstock_decision_seconds_bucket{protocol=\"http\",le=\"0.00001\"} 3\n")) << out;
  EXPECT_TRUE(has("penstock_decision_seconds_bucket{protocol=\"http\",le=\"1\"} 3\n")) << out;
  EXPECT_TRUE(has("penstock_decision_seconds_bucket{protocol=\"http\",le=\"+Inf\"} 4\n")) << out;
  EXPECT_TRUE(has("penstock_decision_seconds_sum{protocol=\"http\"} 2.000015\n")) << out;
  EXPECT_TRUE(has("penstock_decision_seconds_count{protocol=\"http\"} 4\n")) << out;
  EXPECT_TRUE(has("penstock_connections{protocol=\"http\"} 3\n")) << out;
}

TEST(MetricsText, PermitsAreCountedByWhatBecameOfThem) {
  service::Metrics metrics;
  service::LoopTotals& totals = metrics.AddLoop().totals;
  totals.permits_granted.Add(9);
  totals.permits_expired.Add(2);
  totals.permits_waiting.Add(5);
  metrics.AddLoop().totals.permits_waiting.Add(1);
  totals.permits_waiting.Subtract(2);
  std::string out;
  AppendMetrics(out, {.decisions = metrics, .engine_name = "memory", .engine = {}, .protocols = {}});
  const auto has = [&](std::string_view line) { return out.find(line) != std::string::npos; };
  EXPECT_TRUE(has("penstock_permits_granted_total 9\n")) << out;
  EXPECT_TRUE(has("penstock_permit_calls_total{result=\"expired\"} 2\n")) << out;
  EXPECT_TRUE(has("penstock_permit_calls_total{result=\"released\"} 0\n")) << out;
  EXPECT_TRUE(has("penstock_permits_waiting 4\n")) << out;
}

TEST(MetricsText, WhatIsDoneWithoutTheEngineIsShown) {
  service::Metrics metrics;
  service::LoopCounters& loop = metrics.AddLoop();
  loop.totals.degraded[static_cast<size_t>(Reason::kTimeout)].Add(3);
  service::FailoverStats failover{.local_decisions = 1,
                                  .without_share = 2,
                                  .local_buckets = 3,
                                  .reported_units = 4,
                                  .lost_units = 5,
                                  .failed_reports = 6,
                                  .fleet = {7, 0, true}};
  MetricsInput input{.decisions = metrics, .engine_name = "redis", .engine = {}, .protocols = {}};
  std::string out;
  AppendMetrics(out, input);
  EXPECT_EQ(out.find("penstock_fleet_nodes"), std::string::npos) << out;
  input.failover = &failover;
  out.clear();
  AppendMetrics(out, input);
  for (const std::string_view line : {
           "penstock_degraded_total{reason=\"timeout\"} 3\n",
           "penstock_degraded_total{reason=\"engine_down\"} 0\n",
           "penstock_engine_errors_total{engine=\"redis\",reason=\"timeout\"} 3\n",
           "penstock_local_decisions_total 1\n",
           "penstock_local_refusals_total 2\n",
           "penstock_local_buckets 3\n",
           "penstock_reconciled_total 4\n",
           "penstock_reconciliation_lost_total 5\n",
           "penstock_reconciliation_retries_total 6\n",
           "penstock_fleet_nodes 7\n",
       }) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
  }
  failover.fleet.known = false;
  out.clear();
  AppendMetrics(out, input);
  EXPECT_NE(out.find("penstock_fleet_nodes 0\n"), std::string::npos) << out;
}

TEST(MetricsText, WhatListenersAndLoopsCountIsShown) {
  ProtocolMetrics resp;
  resp.protocol = "resp";
  resp.accepted = 5;
  resp.timed_out = 4;
  resp.failed_handshakes = 3;
  resp.accept_pauses = 2;
  service::Metrics metrics;
  service::LoopCounters& loop = metrics.AddLoop();
  loop.totals.repeats.Add(6);
  loop.totals.ad_hoc_compiled.Add(7);
  loop.At(*metrics.Slot("d", "held")).saturated.Add(8);
  loop.At(*metrics.Slot("d", "free")).outcomes[0].Add(1);
  std::string out;
  AppendMetrics(out, {.decisions = metrics, .engine_name = "memory", .engine = {}, .protocols = {&resp, 1}});
  for (const std::string_view line : {
           "penstock_connections_accepted_total{protocol=\"resp\"} 5\n",
           "penstock_connections_timed_out_total{protocol=\"resp\"} 4\n",
           "penstock_tls_handshakes_failed_total{protocol=\"resp\"} 3\n",
           "penstock_accept_pauses_total{protocol=\"resp\"} 2\n",
           "penstock_repeats_total 6\n",
           "penstock_ad_hoc_limits_compiled_total 7\n",
           "penstock_limit_saturated_total{domain=\"d\",limit=\"held\"} 8\n",
       }) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
  }
  // A limit that never was at the end of its numbers has no series.
  EXPECT_EQ(out.find("penstock_limit_saturated_total{domain=\"d\",limit=\"free\"}"), std::string::npos)
      << out;
}

}  // namespace
}  // namespace penstock::api
