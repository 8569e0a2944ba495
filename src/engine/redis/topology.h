// Which server has a key: one server, the master that Sentinel names, or a cluster's slots. It finds out by itself,
// keeps watching, and sends again elsewhere what a server refused because the key is not (or no longer) there.
//
// What is sent again: only what did not run, by a reply that says so (rule E10), at most kMaxRedirects times and never
// past its deadline. What comes of it is told by the exchange's Done, as ever.
//
// Thread contract: one event loop's thread, but TopologyCounters is for any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/exchange.h"
#include "engine/redis/options.h"
#include "engine/redis/server_link.h"

namespace penstock::engine::redis {

// How often an exchange is sent elsewhere (or once more) before it is given up as not run.
inline constexpr int kMaxRedirects = 5;

// Of all loops together.
struct TopologyCounters {
  std::atomic<uint64_t> moved{0};
  std::atomic<uint64_t> asked{0};
  std::atomic<uint64_t> try_again{0};
  std::atomic<uint64_t> read_only{0};
  std::atomic<uint64_t> cluster_down{0};
  std::atomic<uint64_t> given_up{0};  // exchanges that found no server in time or within kMaxRedirects
  std::atomic<uint64_t> refreshes{0};
  std::atomic<uint64_t> failed_refreshes{0};
  std::atomic<uint64_t> changes{0};         // another master, or another map
  std::atomic<int64_t> last_refresh_us{0};  // steady time of the last answer to "who has what", 0 = none
};

struct LinkInfo {
  std::string target;
  std::string_view role;  // "server", "master", "node" (of the cluster, without slots)
  bool usable = false;
  size_t in_flight = 0;
  int32_t slots = 0;  // cluster: how many it serves
  std::string trouble;
};

class Topology {
 public:
  virtual ~Topology() = default;
  // The link for a slot (any number where there is no cluster), or null while nobody is known to serve it. The link is
  // good until control returns to the loop: ask again for every call. A cluster's link for kNoSlot is any of a master.
  virtual ServerLink* LinkFor(int32_t slot) noexcept = 0;
  // Whether keys of different slots need calls of their own.
  virtual bool has_slots() const = 0;
  // Every link at hand, for figures and probes.
  virtual void ForEachLink(const std::function<void(ServerLink&)>& visit) = 0;
  virtual std::vector<LinkInfo> Links() const = 0;
  // Why LinkFor gives null, or what is wrong at present; empty when all is well.
  virtual std::string_view trouble() const = 0;
};

// `options` and the counters (null: nobody counts) must outlive the topology. What is in flight when it is destroyed is
// Done then.
std::unique_ptr<Topology> OpenTopology(const LinkParts& parts, const Options& options,
                                       TopologyCounters* counters = nullptr);

}  // namespace penstock::engine::redis
