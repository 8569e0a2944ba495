#include "base/receive_buffer.h"

#include <cstring>

namespace penstock {

std::span<char> ReceiveBuffer::Space() {
  const size_t kept = end_ - begin_;
  if (kept == 0) {
    begin_ = end_ = 0;
    if (capacity_ != kReadBytes) Resize(kReadBytes);  // the first read, or the one after an outsized command
  } else if (capacity_ - end_ < kLeastSpace) {
    if (capacity_ - kept < kLeastSpace) {
      Resize(capacity_ * 2);
    } else {
      std::memmove(bytes_.get(), bytes_.get() + begin_, kept);
    }
    begin_ = 0;
    end_ = kept;
  }
  return {bytes_.get() + end_, capacity_ - end_};
}

void ReceiveBuffer::Resize(size_t capacity) {
  auto larger = std::make_unique_for_overwrite<char[]>(capacity);
  if (end_ > begin_) std::memcpy(larger.get(), bytes_.get() + begin_, end_ - begin_);
  bytes_ = std::move(larger);
  capacity_ = capacity;
}

}  // namespace penstock
