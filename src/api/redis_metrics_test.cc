#include "api/redis_metrics.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "engine/redis/reply_table.h"

namespace penstock::api {
namespace {

TEST(RedisMetrics, EveryServerHasItsFiguresAndErrorsTheirNames) {
  engine::redis::LinkBook book;
  engine::redis::TopologyCounters topology;
  engine::redis::Counters counters;
  engine::redis::HintStats hints;
  engine::redis::LinkStats& stats = book.Of("store:6379");
  book.Of("/run/\"odd\".sock");
  stats.open_breakers = 2;
  stats.timeouts = 7;
  stats.refused_open = 9;
  const auto rows = engine::redis::ReplyTable();
  const auto& noscript = engine::redis::MeaningOf("NOSCRIPT x");
  stats.errors[static_cast<size_t>(&noscript - rows.data())] = 3;
  stats.errors[rows.size() - 1] = 4;
  topology.moved = 5;
  counters.undo_lost = 6;
  hints.heard[0] = 8;
  hints.listening = 1;
  std::string out;
  AppendRedisMetrics(out, book, topology, counters, hints);
  for (const std::string_view line :
       {"penstock_breaker_open{shard=\"store:6379\"} 2\n",
        "penstock_redis_timeouts_total{shard=\"store:6379\"} 7\n",
        "penstock_redis_refused_total{shard=\"store:6379\",reason=\"breaker_open\"} 9\n",
        "penstock_redis_error_replies_total{shard=\"store:6379\",reply=\"noscript\"} 3\n",
        "penstock_redis_error_replies_total{shard=\"store:6379\",reply=\"other\"} 4\n",
        "penstock_redis_sent_again_total{reply=\"moved\"} 5\n", "penstock_undo_lost_total 6\n",
        "penstock_redis_hints_total{kind=\"limits\"} 8\n", "penstock_redis_hints_listening 1\n",
        "penstock_breaker_open{shard=\"/run/\\\"odd\\\".sock\"} 0\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
  }
  // A family's lines stand together, under one head.
  std::set<std::string> heads;
  std::string line;
  for (std::istringstream lines(out); std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    EXPECT_TRUE(heads.insert(line.substr(7, line.find(' ', 7) - 7)).second) << line;
  }
  EXPECT_GT(heads.size(), 15u);
}

}  // namespace
}  // namespace penstock::api
