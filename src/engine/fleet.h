// How many nodes there are, as the nodes' heartbeats tell it, and which of them this one is. What stands in for an
// engine that does not answer shares a limit by it.
//
// Thread contract: any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::engine {

struct Fleet {
  // Nodes more than this are taken for a mistake: the number stays there.
  static constexpr uint32_t kMaxNodes = 100'000;

  uint32_t nodes = 0;
  std::optional<uint32_t>
      index;           // this node's place among the nodes, each has another; none while it is not sure
  bool known = false;  // false: no share may be taken of `nodes`

  friend bool operator==(const Fleet&, const Fleet&) = default;
};

class FleetView {
 public:
  virtual ~FleetView() = default;
  // In an outage: as it was before.
  virtual Fleet fleet() const = 0;
};

}  // namespace penstock::engine
