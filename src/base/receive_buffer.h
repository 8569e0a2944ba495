// The bytes of a connection that were received and not yet consumed.
//
// Views into it live until the next Space(): only that call moves bytes. The bound on its size is the
// parser's: a caller reads more only while no whole command is there, and the parser refuses a command above
// its limit.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace penstock {

class ReceiveBuffer {
 public:
  static constexpr size_t kReadBytes =
      16 * 1'024;  // usual size; an idle connection touches only its first page
  static constexpr size_t kLeastSpace = 4 * 1'024;  // what Space() gives at least

  // Room to read into, at least kLeastSpace. Ends the life of every view.
  std::span<char> Space();
  // `count` bytes were written at the front of the last Space().
  void Received(size_t count) { end_ += count; }

  std::span<char> unread() { return {bytes_.get() + begin_, end_ - begin_}; }
  void Consume(size_t count) { begin_ += count; }

  void Clear() { begin_ = end_ = 0; }
  size_t capacity() const { return capacity_; }

 private:
  void Resize(size_t capacity);

  // Invariant: begin_ <= end_ <= capacity_; unread bytes are [begin_, end_).
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace penstock
