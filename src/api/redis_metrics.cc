#include "api/redis_metrics.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <vector>

#include "api/metrics_writer.h"
#include "engine/redis/reply_table.h"

namespace penstock::api {
namespace {

using engine::redis::LinkStats;
using Counter = std::atomic<uint64_t>;
using Servers = std::vector<const LinkStats*>;

uint64_t Value(const Counter& counter) { return counter.load(std::memory_order_relaxed); }
uint64_t Value(const std::atomic<int64_t>& gauge) {
  return static_cast<uint64_t>(std::max<int64_t>(gauge.load(std::memory_order_relaxed), 0));
}

template <class Figure>
void ByServer(std::string& out, const Servers& servers, std::string_view name, std::string_view type,
              std::string_view help, Figure LinkStats::*figure) {
  Head(out, name, type, help);
  for (const LinkStats* server : servers)
    Sample(out, name, {{"shard", server->server}}, Value(server->*figure));
}

// The first word of what the error begins with, in small letters.
std::string ReplyName(std::string_view prefix) {
  if (prefix.empty()) return "other";
  if (prefix.starts_with("ERR max")) return "maxclients";
  std::string out;
  for (const char c : prefix.substr(0, prefix.find(' '))) {
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

void AppendReplies(std::string& out, const Servers& servers) {
  constexpr std::string_view kName = "penstock_redis_error_replies_total";
  Head(out, kName, "counter", "Error replies, by what they begin with.");
  const auto rows = engine::redis::ReplyTable();
  for (const LinkStats* server : servers) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t count = Value(server->errors[i]);
      if (count == 0) continue;
      Sample(out, kName, {{"shard", server->server}, {"reply", ReplyName(rows[i].prefix)}}, count);
    }
  }
}

void AppendTopology(std::string& out, const engine::redis::TopologyCounters& topology) {
  constexpr std::string_view kSentAgain = "penstock_redis_sent_again_total";
  Head(out, kSentAgain, "counter",
       "Commands that did not run and were sent elsewhere or once more, by the reply.");
  Sample(out, kSentAgain, {{"reply", "moved"}}, Value(topology.moved));
  Sample(out, kSentAgain, {{"reply", "ask"}}, Value(topology.asked));
  Sample(out, kSentAgain, {{"reply", "tryagain"}}, Value(topology.try_again));
  Sample(out, kSentAgain, {{"reply", "readonly"}}, Value(topology.read_only));
  Sample(out, kSentAgain, {{"reply", "clusterdown"}}, Value(topology.cluster_down));
  Single(out, "penstock_redis_no_server_total", "counter", "Commands that found no server in time.",
         Value(topology.given_up));
  Single(out, "penstock_redis_refreshes_total", "counter", "Answers to the question who serves what.",
         Value(topology.refreshes));
  Single(out, "penstock_redis_refreshes_failed_total", "counter",
         "Times that nobody could say who serves what.", Value(topology.failed_refreshes));
  Single(out, "penstock_redis_changes_total", "counter",
         "Times that another master, or another map, was found.", Value(topology.changes));
}

void AppendEngine(std::string& out, const engine::redis::Counters& counters) {
  Single(out, "penstock_undone_total", "counter", "Requests whose charges were taken back.",
         Value(counters.undone));
  Single(out, "penstock_undo_lost_total", "counter",
         "Charges of refused requests that could not be taken back.", Value(counters.undo_lost));
  constexpr std::string_view kOdd = "penstock_redis_unreadable_total";
  Head(out, kOdd, "counter",
       "Answers that could not be taken: foreign values, newer layouts, our own faults.");
  Sample(out, kOdd, {{"cause", "foreign"}}, Value(counters.foreign));
  Sample(out, kOdd, {{"cause", "newer"}}, Value(counters.newer));
  Sample(out, kOdd, {{"cause", "broken"}}, Value(counters.broken));
  Single(out, "penstock_redis_calls_total", "counter", "Script calls.", Value(counters.calls));
}

void AppendHints(std::string& out, const engine::redis::HintStats& hints) {
  constexpr std::string_view kHeard = "penstock_redis_hints_total";
  Head(out, kHeard, "counter", "Hints that were heard of what some node changed.");
  for (size_t kind = 0; kind < hints.heard.size(); ++kind)
    Sample(out, kHeard, {{"kind", engine::redis::kHintNames[kind]}}, Value(hints.heard[kind]));
  Sample(out, kHeard, {{"kind", "unknown"}}, Value(hints.unknown));
  Single(out, "penstock_redis_hints_listening", "gauge",
         "Whether hints are heard at present; if not, changes are seen by asking alone.",
         Value(hints.listening));
  Single(out, "penstock_redis_hints_subscribed_total", "counter", "Subscriptions to hints.",
         Value(hints.subscribed));
  Single(out, "penstock_redis_hints_lost_total", "counter", "Subscriptions that broke.", Value(hints.lost));
  Single(out, "penstock_redis_hints_refused_total", "counter",
         "Times that the server's ACL did not let this node subscribe, or publish.", Value(hints.refused));
}

}  // namespace

void AppendRedisMetrics(std::string& out, const engine::redis::LinkBook& book,
                        const engine::redis::TopologyCounters& topology,
                        const engine::redis::Counters& counters, const engine::redis::HintStats& hints) {
  Servers servers;
  book.ForEach([&servers](const LinkStats& stats) { servers.push_back(&stats); });
  ByServer(out, servers, "penstock_breaker_open", "gauge",
           "Event loops that do not use this server at present.", &LinkStats::open_breakers);
  ByServer(out, servers, "penstock_redis_links", "gauge", "Event loops that know this server.",
           &LinkStats::links);
  ByServer(out, servers, "penstock_redis_connects_total", "counter", "Connections that became usable.",
           &LinkStats::connects);
  ByServer(out, servers, "penstock_redis_connects_failed_total", "counter",
           "Attempts to connect that failed.", &LinkStats::failed_connects);
  ByServer(out, servers, "penstock_redis_connections_lost_total", "counter", "Usable connections that broke.",
           &LinkStats::lost);
  ByServer(out, servers, "penstock_redis_connections_given_up_total", "counter",
           "Connections closed because nothing was answered any more.", &LinkStats::given_up);
  ByServer(out, servers, "penstock_redis_timeouts_total", "counter",
           "Commands not answered by their deadline.", &LinkStats::timeouts);
  ByServer(out, servers, "penstock_redis_late_replies_total", "counter", "Replies that came after that.",
           &LinkStats::late);
  constexpr std::string_view kRefused = "penstock_redis_refused_total";
  Head(out, kRefused, "counter", "Commands that were not sent.");
  for (const LinkStats* server : servers) {
    Sample(out, kRefused, {{"shard", server->server}, {"reason", "breaker_open"}},
           Value(server->refused_open));
    Sample(out, kRefused, {{"shard", server->server}, {"reason", "overload"}}, Value(server->refused_full));
  }
  AppendReplies(out, servers);
  AppendTopology(out, topology);
  AppendEngine(out, counters);
  AppendHints(out, hints);
}

}  // namespace penstock::api
