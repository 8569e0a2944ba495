// Which server has a key: one server, the master that Sentinel names, or a cluster's slots. It finds out by itself,
// keeps watching, and sends again elsewhere what a server refused because the key is not (or no longer) there.
//
// Thread contract: one event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/exchange.h"
#include "engine/redis/options.h"
#include "engine/redis/server_link.h"

namespace penstock::engine::redis {

class Topology {
 public:
  virtual ~Topology() = default;
  // The link for a slot (any number where there is no cluster), or null while nobody is known to serve it.
  virtual ServerLink* LinkFor(int32_t slot) noexcept = 0;
  // Whether keys of different slots need calls of their own.
  virtual bool has_slots() const = 0;
  // Every link at hand, for figures and probes.
  virtual void ForEachLink(const std::function<void(ServerLink&)>& visit) = 0;
  // Why LinkFor gives null, or what is wrong at present; empty when all is well.
  virtual std::string_view trouble() const = 0;
};

std::unique_ptr<Topology> OpenTopology(const LinkParts& parts, const Options& options);

}  // namespace penstock::engine::redis
