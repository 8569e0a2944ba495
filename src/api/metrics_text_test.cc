#include "api/metrics_text.h"

#include <gtest/gtest.h>

namespace penstock::api {
namespace {

TEST(MetricsText, HistogramBucketsAreCumulativeAndExact) {
  LatencyHistogram histogram;
  histogram.Record({4}, 2);
  histogram.Record({7}, 1);
  histogram.Record({2'000'000}, 1);
  ProtocolMetrics http{"http", {}, 3};
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

}  // namespace
}  // namespace penstock::api
