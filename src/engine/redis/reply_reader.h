// Whole replies out of the bytes of a connection, for those who make one connection after the other.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "base/receive_buffer.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis {

class ReplyReader {
 public:
  // A reply; its views hold during the call.
  using Heard = std::function<void(std::span<const resp::ReplyNode> reply)>;

  ReplyReader(const resp::ReplyLimits& limits, Heard heard) : parser_(limits), heard_(std::move(heard)) {}

  // Another connection, or none: what is left of the old one is dropped, also when `heard` says so.
  void Reset();
  // Which connection it is; changes with every Reset.
  uint64_t generation() const { return generation_; }

  std::span<char> Space() { return buffer_.Space(); }
  // Tells every whole reply. What is wrong with the bytes, empty if nothing is; valid until the next Reset.
  std::string_view Received(size_t count);

 private:
  ReceiveBuffer buffer_;
  resp::ReplyParser parser_;
  const Heard heard_;
  uint64_t generation_ = 0;
};

}  // namespace penstock::engine::redis
