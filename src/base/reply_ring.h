// Replies leave in the order in which their requests came, whenever they are known: the part of a session
// that every pipelining protocol (HTTP/1, RESP) needs.
//
// A request that is to be answered opens a slot and gets a ticket. The answer for the oldest open slot is
// written straight into the output, without a copy or an allocation; one that comes early is held in its slot
// until all before it are there. A ticket names the ring's generation: after Reset() (the connection closed,
// the object will serve another) late answers for old tickets find nothing to write to and change nothing.
//
// Thread contract: one thread, the loop of the connection. Preconditions: Open() only while !Full(); between
// Begin() and End() of a reply no other call on the ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

struct ReplyTicket {
  uint64_t slot = 0;  // counts up for the life of the ring
  uint32_t generation = 0;

  friend bool operator==(const ReplyTicket&, const ReplyTicket&) = default;
};

class ReplyRing {
 public:
  // At most this many slots may be open at a time; at least 1.
  explicit ReplyRing(size_t max_open) : max_open_(max_open == 0 ? 1 : max_open) {}

  bool Full() const { return open() >= max_open_; }
  bool Empty() const { return first_ == next_; }
  size_t open() const { return static_cast<size_t>(next_ - first_); }
  // Bytes of early answers; they are not in output() yet.
  size_t held_bytes() const { return held_bytes_; }
  uint32_t generation() const { return generation_; }

  ReplyTicket Open() { return {next_++, generation_}; }

  // Where to append the reply, or null if the ticket is of an earlier generation or was answered already.
  std::string* Begin(ReplyTicket ticket) {
    if (ticket.generation != generation_ || ticket.slot - first_ >= next_ - first_) return nullptr;
    if (ticket.slot == first_) return &output_;
    return BeginEarly(ticket.slot);
  }
  void End(ReplyTicket ticket) {
    if (ticket.slot == first_) {
      ++first_;
      if (held_count_ > 0) ReleaseHeld();
    } else {
      EndEarly(ticket.slot);
    }
  }

  // False if there was nobody to answer.
  bool Reply(ReplyTicket ticket, std::string_view bytes) {
    std::string* out = Begin(ticket);
    if (out == nullptr) return false;
    out->append(bytes);
    End(ticket);
    return true;
  }

  // True if everything up to and with this slot of the present generation is in output().
  bool Answered(uint64_t slot) const { return slot < first_; }

  // What may be sent now. The owner takes bytes away; it may also append what belongs to no slot, before
  // Open().
  std::string& output() { return output_; }
  const std::string& output() const { return output_; }

  // Forgets all slots and bytes and starts a new generation.
  void Reset();

 private:
  struct Held {
    std::string bytes;
    bool ready = false;
  };
  // A string that once grew beyond this gives its memory back when its slot is done.
  static constexpr size_t kKeepCapacity = 16 * 1024;
  // So do more slots than these, once nothing is held: or a deep pipeline would leave a string a slot behind.
  static constexpr size_t kKeepSlots = 64;

  Held& At(uint64_t slot) { return held_[slot & (held_.size() - 1)]; }
  void GrowFor(uint64_t slot);
  std::string* BeginEarly(uint64_t slot);
  void EndEarly(uint64_t slot);
  void ReleaseHeld();

  const size_t max_open_;
  std::string output_;
  // Open slots are [first_, next_). An entry of held_ that stands for none of them is empty and not ready; so
  // a slot that is answered in its turn never touches held_, and held_ is allocated at the first early answer
  // only.
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  std::vector<Held> held_;  // size zero or a power of two; every ready slot is below first_ + size
  size_t held_count_ = 0;   // ready entries
  size_t held_bytes_ = 0;
  uint32_t generation_ = 1;
};

}  // namespace penstock
