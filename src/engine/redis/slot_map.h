// What CLUSTER SLOTS says: which master serves which slots, and what other nodes there are.
//
// Thread contract: plain values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis {

struct NodeAddress {
  std::string host;
  uint16_t port = 0;
  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

struct SlotRange {
  int32_t first = 0;
  int32_t last = 0;
  size_t node = 0;  // index into SlotMap::nodes
};

// Invariant: ranges lie in [0, kSlotCount), each with first <= last and a node of `nodes`.
struct SlotMap {
  static constexpr size_t kMostNodes = 1'024;  // a cluster's documented bound is about 1000

  std::vector<NodeAddress> nodes;  // each once; masters and replicas
  std::vector<SlotRange> ranges;
};

// `asked` is whom the reply came from: a node that says no host of its own is there. A range whose master has no known
// host ("?") is left out. Any other shape than the documented one is an error.
Result<SlotMap> ReadSlotMap(std::span<const resp::ReplyNode> reply, std::string_view asked);

}  // namespace penstock::engine::redis
