// The checks over measurements: clocks, keys, latencies, scripts; and how a report is printed.
#include <gtest/gtest.h>

#include "engine/redis/checkup/clock_check.h"
#include "engine/redis/checkup/key_check.h"
#include "engine/redis/checkup/latency_check.h"
#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/script_check.h"
#include "engine/redis/checkup/testing.h"

namespace penstock::checkup {
namespace {

constexpr EngineTime kWall{1'800'000'000'000'000};  // when the steady clock was zero

// Sixteen samples over 3 s, each with a round trip of 200 us; the server is ahead of us by `ahead` + i * `grows`.
ServerClock Clock(const char* where, int64_t ahead_us, int64_t grows_us = 0) {
  ServerClock clock{where, false, {}};
  for (int64_t i = 0; i < 16; ++i) {
    const SteadyTime sent{i * 200'000};
    clock.samples.push_back({{kWall.us + sent.us + 100 + ahead_us + i * grows_us}, sent, sent + Micros{200}});
  }
  return clock;
}

Finding Clocks(std::vector<ServerClock> clocks) { return CheckClocks(clocks, kWall); }

TEST(ClockCheckTest, ClocksThatAgreeAreFine) {
  const Finding finding = Clocks({Clock("h:1", 1'000), Clock("h:2", -1'000)});
  EXPECT_EQ(finding.status, Status::kOk) << Show(finding);
}

TEST(ClockCheckTest, AStepWhileWeLookFails) {
  for (const int64_t step : {50'000, -50'000}) {
    ServerClock clock = Clock("h:1", 0);
    for (size_t i = 10; i < clock.samples.size(); ++i) clock.samples[i].server.us += step;
    const Finding finding = Clocks({clock});
    EXPECT_EQ(finding.status, Status::kFailed) << Show(finding);
    EXPECT_NE(finding.figure.find("a step of " + std::string(step < 0 ? "-" : "") + "49.8"),
              std::string::npos)
        << finding.figure;
  }
}

TEST(ClockCheckTest, ASlowRoundTripIsNoStep) {
  ServerClock clock = Clock("h:1", 0);
  clock.samples[5].received.us += 500'000;
  EXPECT_EQ(Clocks({clock}).status, Status::kOk) << Show(Clocks({clock}));
}

TEST(ClockCheckTest, DriftIsMeasured) {
  // 200 us in 200 ms are 1000 ppm; the ends prove a little less.
  const Finding finding = Clocks({Clock("h:1", 0, 200)});
  EXPECT_EQ(finding.status, Status::kWarning) << Show(finding);
  EXPECT_NE(finding.figure.find("drifts by 9"), std::string::npos) << finding.figure;
  EXPECT_EQ(Clocks({Clock("h:1", 0, 50)}).status, Status::kOk);
}

TEST(ClockCheckTest, FarFromOursIsAWarning) {
  EXPECT_EQ(Clocks({Clock("h:1", -3'000'000)}).status, Status::kWarning);
  EXPECT_EQ(Clocks({Clock("h:1", 1'900'000)}).status, Status::kOk);
}

TEST(ClockCheckTest, ServersApartGiveOrTakeTimeAtAFailover) {
  EXPECT_EQ(Clocks({Clock("h:1", 0), Clock("h:2", 700'000)}).status, Status::kWarning);
  const Finding far = Clocks({Clock("h:1", 0), Clock("h:2", 0), Clock("h:3", -6'000'000)});
  EXPECT_EQ(far.status, Status::kFailed) << Show(far);
}

TEST(ClockCheckTest, AServerThatDoesNotAnswerIsSkipped) {
  EXPECT_EQ(Clocks({Clock("h:1", 0), {"h:2", false, {}}}).status, Status::kSkipped);
}

TEST(KeyCheckTest, AKeyWithoutTtlIsNamed) {
  KeyCensus census("pen:");
  census.Note("pen:{a/b:0:x}", 5'000, Bulk("\x01"));
  EXPECT_EQ(census.Check().status, Status::kOk) << Show(census.Check());
  EXPECT_EQ(census.CheckLayouts().status, Status::kOk) << Show(census.CheckLayouts());
  census.Note("pen:gone", -2, Bulk(""));
  census.Note("pen:sta\nle", -1, Failure("WRONGTYPE Operation against a key"));
  EXPECT_EQ(census.seen(), 2u);
  const Finding finding = census.Check();
  EXPECT_EQ(finding.status, Status::kWarning);
  EXPECT_EQ(finding.details.back(), "without TTL: pen:sta?le");
  EXPECT_EQ(census.CheckLayouts().status, Status::kWarning) << Show(census.CheckLayouts());
}

TEST(KeyCheckTest, RegisteredLimitsMayStayAndTheBooksHaveNoLayout) {
  KeyCensus census("pen:");
  census.Note("pen:{registry}", -1, Failure("WRONGTYPE Operation against a key"));
  census.Note("pen:{registry}:versions", -1, Failure("WRONGTYPE Operation against a key"));
  census.Note("pen:{fleet}", 9'000, Bulk("id"));
  EXPECT_EQ(census.Check().status, Status::kOk) << Show(census.Check());
  EXPECT_EQ(census.CheckLayouts().status, Status::kOk) << Show(census.CheckLayouts());
  census.Note("pen:{fleet}", -1, Bulk("id"));
  EXPECT_EQ(census.Check().status, Status::kWarning);
}

TEST(KeyCheckTest, LayoutsAreToldApart) {
  KeyCensus census("pen:");
  census.Note("pen:new", 5'000, Bulk("\x02..."));
  const Finding newer = census.CheckLayouts();
  EXPECT_EQ(newer.figure, "0 values in layout 1, 1 newer, 0 foreign");
  EXPECT_EQ(newer.status, Status::kWarning);
  census.Note("pen:text", 5'000, Bulk("42"));
  EXPECT_EQ(census.CheckLayouts().figure, "0 values in layout 1, 1 newer, 1 foreign");
  census.Note("pen:text", 5'000,
              Failure("NOPERM this user has no permissions to run the 'getrange' command"));
  EXPECT_EQ(census.CheckLayouts().status, Status::kSkipped);
}

TEST(KeyCheckTest, WhatMayNotBeListedIsSkipped) {
  KeyCensus census("pen:");
  census.Refused("h:1", "SCAN: NOPERM");
  EXPECT_EQ(census.Check().status, Status::kSkipped);
}

TEST(KeyCheckTest, ATtlCoversTheUse) {
  EXPECT_EQ(CheckBucketTtls({{"token_bucket", 1'000, Millis(1'000)}}).status, Status::kOk);
  EXPECT_EQ(CheckBucketTtls({{"token_bucket", 998, Millis(1'000)}}).status, Status::kFailed);
  EXPECT_EQ(CheckBucketTtls({{"token_bucket", -1, Millis(1'000)}}).status, Status::kFailed);
  EXPECT_EQ(CheckBucketTtls({{"token_bucket", 1'000'000, Millis(1'000)}}).status, Status::kWarning);
  EXPECT_EQ(CheckBucketTtls({}).status, Status::kSkipped);
}

TEST(LatencyCheckTest, PercentilesAreByRank) {
  std::vector<int64_t> values;
  for (int64_t i = 1'000; i >= 1; --i) values.push_back(i);
  const Percentiles p = PercentilesOf(values);
  EXPECT_EQ(Text(p), "p50 0.500 ms, p99 0.990 ms, p99.9 0.999 ms, max 1.000 ms");
  std::vector<int64_t> one = {7};
  EXPECT_EQ(PercentilesOf(one).p999_us, 7);
  std::vector<int64_t> none;
  EXPECT_EQ(PercentilesOf(none).count, 0u);
}

TEST(LatencyCheckTest, DecisionsStandBesideTheTimeOut) {
  const Percentiles quick{1'000, 100, 200, 300, 400};
  const std::vector<ServerLatency> servers = {{"h:1", quick}};
  EXPECT_EQ(CheckLatency(servers, {quick, 0}, Millis(20)).status, Status::kOk);
  EXPECT_EQ(CheckLatency(servers, {{1'000, 100, 200, 10'001, 10'400}, 0}, Millis(20)).status,
            Status::kWarning);
  EXPECT_EQ(CheckLatency(servers, {quick, 1}, Millis(20)).status, Status::kWarning);
  EXPECT_EQ(CheckLatency(servers, {quick, 2}, Millis(20)).status, Status::kFailed);
  EXPECT_EQ(CheckLatency(servers, {}, Millis(20)).status, Status::kSkipped);
  EXPECT_EQ(CheckLatency({{"h:1", {1'000, 100, 21'000, 30'000, 40'000}}}, {quick, 0}, Millis(20)).status,
            Status::kFailed);
}

TEST(ScriptCheckTest, AScriptThatIsNotTakenOrNotFoundFails) {
  const ScriptProbe good{"h:1", "group", "abc", false, Bulk("abc"), Failure("ERR wrong number of keys")};
  EXPECT_EQ(CheckScripts({good}).status, Status::kOk);
  ScriptProbe probe = good;
  probe.loaded = Failure("NOPERM this user has no permissions to run the 'script|load' command");
  EXPECT_EQ(CheckScripts({good, probe}).status, Status::kFailed);
  EXPECT_EQ(CheckScripts({good, probe}).remedy, "add +script|load to the user");
  probe = good;
  probe.loaded = Bulk("abd");
  EXPECT_EQ(CheckScripts({probe}).status, Status::kFailed);
  probe = good;
  probe.called = Failure("NOSCRIPT No matching script.");
  EXPECT_EQ(CheckScripts({probe}).status, Status::kFailed);
}

TEST(ScriptCheckTest, AnotherBuildIsToldApart) {
  const std::string list =
      "id=3 addr=127.0.0.1:1 name=penstock-aaa age=1 idle=0\nid=4 addr=127.0.0.1:2 name=penstock-aaa age=1\n"
      "id=5 addr=127.0.0.1:3 name= age=1\nid=6 addr=127.0.0.1:4 name=penstock-bbb age=1\n";
  const auto builds = ParseBuilds(list, "penstock-");
  EXPECT_EQ(builds, (std::map<std::string, size_t>{{"aaa", 2}, {"bbb", 1}}));
  EXPECT_EQ(CheckBuilds(builds, "aaa", "").status, Status::kWarning);
  EXPECT_EQ(CheckBuilds({{"aaa", 2}}, "aaa", "").status, Status::kOk);
  EXPECT_EQ(CheckBuilds({}, "aaa", "").status, Status::kOk);
  EXPECT_EQ(CheckBuilds({}, "aaa", "NOPERM").status, Status::kSkipped);
}

TEST(ReportTest, TextAndJson) {
  Report report;
  report.engine = "redis://h:1";
  report.elapsed_ms = 7;
  report.findings.emplace_back("eviction");
  report.findings.back().figure = "maxmemory-policy \"x\"";
  report.findings.back().Add(Status::kFailed, "h:1", "bad", "It loses buckets", "Set it");
  report.findings.emplace_back("clock");
  report.findings.back().Add(Status::kOk, "h:1", "0 ms", "fine");
  EXPECT_TRUE(report.HasFindings());
  EXPECT_EQ(ReportJson(report),
            "{\"ok\":false,\"engine\":\"redis://h:1\",\"passed\":1,\"warning\":0,\"failed\":1,\"skipped\":0,"
            "\"elapsed_ms\":7,\"checks\":["
            "{\"name\":\"eviction\",\"status\":\"failed\",\"figure\":\"maxmemory-policy "
            "\\\"x\\\"\",\"meaning\":\"It "
            "loses buckets\",\"remedy\":\"Set it\",\"details\":[\"h:1: bad\"]},"
            "{\"name\":\"clock\",\"status\":\"ok\",\"figure\":\"\",\"meaning\":\"fine\",\"remedy\":\"\","
            "\"details\":["
            "\"h:1: 0 ms\"]}]}\n");
  const std::string text = ReportText(report);
  EXPECT_NE(text.find("failed   eviction"), std::string::npos) << text;
  EXPECT_NE(text.find("-> Set it"), std::string::npos) << text;
  EXPECT_NE(text.find("1 ok, 0 warning, 1 failed, 0 skipped, in 7 ms"), std::string::npos) << text;
}

TEST(ReportTest, NoLineIsLongerThanHundredColumnsWhereWordsAllowIt) {
  Report report;
  report.engine = "redis://h:1";
  report.findings.emplace_back("eviction");
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word" + std::to_string(i) + " ";
  report.findings.back().figure = words;
  report.findings.back().Add(Status::kWarning, "h:1", words, words, words);
  const std::string text = ReportText(report);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 101u) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(ReportTest, TheHeaviestContributionGivesMeaningAndRemedy) {
  Finding finding("x");
  finding.Add(Status::kOk, "a", "1", "fine");
  finding.Add(Status::kWarning, "b", "2", "first", "do this");
  finding.Add(Status::kSkipped, "c", "3", "skipped");
  finding.Add(Status::kWarning, "d", "4", "second", "do that");
  EXPECT_EQ(finding.status, Status::kWarning);
  EXPECT_EQ(finding.meaning, "first");
  EXPECT_EQ(finding.remedy, "do this");
  EXPECT_EQ(finding.details.size(), 4u);
}

}  // namespace
}  // namespace penstock::checkup
