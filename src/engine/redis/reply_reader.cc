#include "engine/redis/reply_reader.h"

namespace penstock::engine::redis {

void ReplyReader::Reset() {
  ++generation_;
  buffer_.Clear();
  parser_.Reset();
}

std::string_view ReplyReader::Received(size_t count) {
  buffer_.Received(count);
  const uint64_t generation = generation_;
  do {
    const std::span<char> unread = buffer_.unread();
    const resp::ParseResult result = parser_.Parse({unread.data(), unread.size()});
    if (result.status == resp::ParseStatus::kError) return parser_.error();
    buffer_.Consume(result.consumed);  // the bytes stay where they are until the next read
    if (result.status == resp::ParseStatus::kNeedMore) return {};
    heard_(parser_.nodes());
  } while (generation == generation_);
  return {};
}

}  // namespace penstock::engine::redis
