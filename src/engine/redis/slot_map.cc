#include "engine/redis/slot_map.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/redis/slots.h"

namespace penstock::engine::redis {
namespace {

using resp::ReplyNode;
using resp::ReplyType;

class Reader {
 public:
  Reader(std::span<const ReplyNode> reply, std::string_view asked) : reply_(reply), asked_(asked) {}

  Result<SlotMap> Read() {
    if (reply_.empty() || reply_[0].type != ReplyType::kArray) return Malformed();
    for (size_t at = 1; at < reply_[0].end; at = reply_[at].end) {
      if (!ReadRange(at)) return Malformed();
    }
    if (map_.nodes.size() > SlotMap::kMostNodes) {
      return Fail(ErrorKind::kTooLarge,
                  "the cluster has more than " + std::to_string(SlotMap::kMostNodes) + " nodes");
    }
    return std::move(map_);
  }

 private:
  static tl::unexpected<Error> Malformed() {
    return Fail(ErrorKind::kUnavailable, "the reply to CLUSTER SLOTS has an unknown shape");
  }

  // [first, last, master, replica, …]
  bool ReadRange(size_t at) {
    const ReplyNode& range = reply_[at];
    if (range.type != ReplyType::kArray || range.children < 3) return false;
    const std::optional<int64_t> first = Slot(at + 1);
    const std::optional<int64_t> last = Slot(at + 2);
    if (!first || !last || *first > *last) return false;
    bool is_master = true;
    for (size_t node = at + 3; node < range.end; node = reply_[node].end) {
      NodeAddress address;
      if (!ReadNode(node, address)) return false;
      const bool known = !address.host.empty();
      if (known && map_.nodes.size() <= SlotMap::kMostNodes) {
        const size_t index = IndexOf(std::move(address));
        if (is_master) {
          map_.ranges.push_back({static_cast<int32_t>(*first), static_cast<int32_t>(*last), index});
        }
      }
      is_master = false;
    }
    return true;
  }

  std::optional<int64_t> Slot(size_t at) const {
    const ReplyNode& node = reply_[at];
    if (node.type != ReplyType::kInteger || node.integer < 0 || node.integer >= kSlotCount) {
      return std::nullopt;
    }
    return node.integer;
  }

  // [host, port, id, [metadata]]; the host is empty in `out` when nobody knows it.
  bool ReadNode(size_t at, NodeAddress& out) const {
    const ReplyNode& node = reply_[at];
    if (node.type != ReplyType::kArray || node.children < 2) return false;
    const ReplyNode& host = reply_[at + 1];
    const ReplyNode& port = reply_[at + 2];
    const bool no_host = host.type == ReplyType::kNull;
    if (!no_host && host.type != ReplyType::kBulk && host.type != ReplyType::kSimple) return false;
    if (port.type != ReplyType::kInteger || port.integer < 0 || port.integer > 65'535) return false;
    out.host = no_host || host.text.empty() ? asked_ : host.text;
    if (out.host == "?" || port.integer == 0) out.host.clear();
    out.port = static_cast<uint16_t>(port.integer);
    return true;
  }

  size_t IndexOf(NodeAddress address) {
    const auto [at, fresh] = index_.try_emplace(std::pair(address.host, address.port), map_.nodes.size());
    if (fresh) map_.nodes.push_back(std::move(address));
    return at->second;
  }

  const std::span<const ReplyNode> reply_;
  const std::string_view asked_;
  SlotMap map_;
  std::map<std::pair<std::string, uint16_t>, size_t> index_;
};

}  // namespace

Result<SlotMap> ReadSlotMap(std::span<const ReplyNode> reply, std::string_view asked) {
  return Reader(reply, asked).Read();
}

}  // namespace penstock::engine::redis
