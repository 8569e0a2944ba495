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
