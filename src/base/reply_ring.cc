#include "base/reply_ring.h"

#include <bit>
#include <utility>

namespace penstock {

void ReplyRing::GrowFor(uint64_t slot) {
  const uint64_t needed = slot - first_ + 1;
  if (needed <= held_.size()) return;
  std::vector<Held> old = std::exchange(held_, std::vector<Held>(std::bit_ceil(needed < 8 ? 8 : needed)));
  for (uint64_t offset = 0; offset < old.size(); ++offset) {
    Held& entry = old[(first_ + offset) & (old.size() - 1)];
    if (entry.ready) At(first_ + offset) = std::move(entry);
  }
}

std::string* ReplyRing::BeginEarly(uint64_t slot) {
  GrowFor(slot);
  Held& entry = At(slot);
  return entry.ready ? nullptr : &entry.bytes;
}

void ReplyRing::EndEarly(uint64_t slot) {
  Held& entry = At(slot);
  entry.ready = true;
  ++held_count_;
  held_bytes_ += entry.bytes.size();
}

void ReplyRing::ReleaseHeld() {
  while (first_ != next_ && held_count_ > 0) {
    Held& entry = At(first_);
    if (!entry.ready) return;
    output_.append(entry.bytes);
    held_bytes_ -= entry.bytes.size();
    --held_count_;
    entry.ready = false;
    entry.bytes.clear();
    if (entry.bytes.capacity() > kKeepCapacity) entry.bytes.shrink_to_fit();
    ++first_;
  }
  if (held_count_ == 0 && held_.size() > kKeepSlots) std::vector<Held>().swap(held_);
}

void ReplyRing::Reset() {
  output_.clear();
  first_ = next_;
  held_.clear();
  held_count_ = 0;
  held_bytes_ = 0;
  ++generation_;
}

}  // namespace penstock
