// What the links to a server count, for the metrics. All loops' links to one server count together.
//
// Thread contract: any thread. Figures are counted only where something went wrong, or a connection was made: a command
// that is answered touches none of them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"

namespace penstock::engine::redis {

struct LinkStats {
  static constexpr size_t kMaxReplies = 32;
  using Counter = std::atomic<uint64_t>;

  explicit LinkStats(std::string name) : server(std::move(name)) {}

  const std::string server;    // host:port or path
  Counter connects{0};         // connections that became usable; all but the first of a link are reconnects
  Counter failed_connects{0};  // attempts that did not
  Counter lost{0};             // usable connections that broke
  Counter given_up{0};         // connections closed because nothing was answered any more
  Counter timeouts{0};         // commands that were not answered by their deadline
  Counter late{0};             // of these: replies that came after all
  Counter refused_open{0};     // commands refused because the breaker was open
  Counter refused_full{0};     // because max_in_flight was reached
  Counter scripts_missing{0};  // NOSCRIPT
  std::array<Counter, kMaxReplies> errors{};  // error replies, by the row of ReplyTable() that names them
  std::atomic<int64_t> links{0};              // at present
  std::atomic<int64_t> open_breakers{0};      // of these links; those that were never connected too
};

// The figures of every server, kept for the life of the engine.
class LinkBook {
 public:
  static constexpr size_t kMaxServers = 1'024;  // those beyond share one set of figures

  LinkStats& Of(std::string_view server) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (LinkStats& stats : all_) {
      if (stats.server == server) return stats;
    }
    if (all_.size() >= kMaxServers) return all_.back();
    return all_.emplace_back(std::string(all_.size() + 1 == kMaxServers ? "others" : server));
  }
  void ForEach(const std::function<void(const LinkStats&)>& visit) const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (const LinkStats& stats : all_) visit(stats);
  }

 private:
  mutable Mutex mutex_;
  std::deque<LinkStats> all_ GUARDED_BY(mutex_);  // grows only: references stay good
};

}  // namespace penstock::engine::redis
