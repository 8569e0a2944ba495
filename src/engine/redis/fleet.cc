#include "engine/redis/fleet.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/random.h"
#include "engine/redis/slots.h"
#include "resp/writer.h"

namespace penstock::engine::redis {

FleetBook::FleetBook() {
  std::array<unsigned char, kIdBytes> bytes;
  SecureRandomBytes(bytes);
  id_.assign(bytes.begin(), bytes.end());
}

Fleet FleetBook::fleet() const {
  MutexLock lock(mutex_);
  Fleet fleet;
  fleet.nodes = *std::max_element(nodes_.begin(), nodes_.end());
  fleet.known = beats_ >= kBeatsToBeKnown;
  if (beats_ > 0 && nodes_[(beats_ - 1) % kBeatsKept] == fleet.nodes) fleet.index = index_;
  return fleet;
}

void FleetBook::Note(int64_t nodes, int64_t index) {
  if (nodes < 1 || nodes > Fleet::kMaxNodes || index < 0 || index >= nodes) return;
  MutexLock lock(mutex_);
  nodes_[beats_++ % kBeatsKept] = static_cast<uint32_t>(nodes);
  index_ = static_cast<uint32_t>(index);
}

FleetBeat::FleetBeat(FleetBook& book, Timer& timer, const Clock& clock, std::string_view prefix,
                     const Script& script)
    : book_(book), timer_(timer), clock_(clock), script_(script) {
  const std::string key = std::string(prefix) + "{fleet}";
  slot_of_key_ = SlotOf(key);
  resp::AppendCommand(command_, {"EVALSHA", script.sha1, "1", key, book.id()});
}

void FleetBeat::Start(Topology& topology) {
  topology_ = &topology;
  timer_id_ = timer_.Schedule(clock_.Steady(), [this] { Beat(); });
}

void FleetBeat::Stop() {
  if (topology_ == nullptr) return;
  topology_ = nullptr;
  timer_.Cancel(timer_id_);
  if (seated_) book_.LeaveSeat();
  seated_ = false;
}

void FleetBeat::Beat() {
  timer_id_ = timer_.Schedule(clock_.Steady() + kPause, [this] { Beat(); });
  if (!seated_) seated_ = book_.TakeSeat();
  if (!seated_ || in_flight_) return;
  ServerLink* const link = topology_->LinkFor(slot_of_key_);
  if (link == nullptr) return;
  slot = topology_->has_slots() ? slot_of_key_ : kNoSlot;
  deadline = clock_.Steady() + kTimeout;
  redirects = 0;
  in_flight_ = true;
  if (link->Send(*this) != Reason::kNone) in_flight_ = false;
}

void FleetBeat::Done(const Reply& reply) noexcept {
  in_flight_ = false;
  if (reply.fate != Fate::kReplied) return;
  const std::span<const resp::ReplyNode> nodes = reply.nodes;
  if (nodes.size() != 3 || nodes[0].type != resp::ReplyType::kArray ||
      nodes[1].type != resp::ReplyType::kInteger || nodes[2].type != resp::ReplyType::kInteger) {
    return;
  }
  book_.Note(nodes[1].integer, nodes[2].integer);
}

}  // namespace penstock::engine::redis
