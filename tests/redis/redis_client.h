// A blocking client of a Redis for tests. What goes wrong with the connection is thrown (FixtureError); a reply that is
// an error is a reply. Not thread-safe.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resp/reply_parser.h"

namespace penstock::fixtures {

// A reply that owns its bytes.
struct ReplyValue {
  resp::ReplyType type = resp::ReplyType::kNull;
  int64_t integer = 0;
  std::string text;
  std::vector<ReplyValue> items;

  bool is_error() const { return type == resp::ReplyType::kError; }
  bool is_null() const { return type == resp::ReplyType::kNull; }
  const ReplyValue& operator[](size_t i) const { return items.at(i); }
  std::string Text() const;  // on one line, for a failure's message
};

class RedisClient {
 public:
  static constexpr std::chrono::milliseconds kPatience{10'000};  // of one reply; catches what hangs

  static RedisClient Tcp(uint16_t port, std::chrono::milliseconds patience = kPatience);
  static RedisClient Unix(const std::string& path, std::chrono::milliseconds patience = kPatience);
  RedisClient(RedisClient&& other) noexcept;
  RedisClient& operator=(RedisClient&& other) noexcept;
  ~RedisClient();

  // One command of strings and integers, and its reply.
  template <class... Part>
  ReplyValue Call(const Part&... parts) {
    return Run({Spell(parts)...});
  }
  // The same where an error reply is a fault of the test.
  template <class... Part>
  ReplyValue Must(const Part&... parts) {
    return Good(Run({Spell(parts)...}));
  }
  ReplyValue Run(const std::vector<std::string>& parts);

  // Pipelining: any number of commands, then as many replies.
  void Send(std::string_view bytes);
  ReplyValue Receive();
  // The next reply as the parser has it: valid until the next call.
  std::span<const resp::ReplyNode> ReceiveNodes();

 private:
  explicit RedisClient(int fd) : fd_(fd) {}
  static std::string Spell(std::string_view text) { return std::string(text); }
  static std::string Spell(std::integral auto number) { return std::to_string(number); }
  static ReplyValue Good(ReplyValue reply);

  int fd_ = -1;
  resp::ReplyParser parser_;
  std::string received_;
  size_t consumed_ = 0;  // bytes of received_ that earlier replies had
};

// A command in RESP.
std::string Command(std::span<const std::string> parts);

}  // namespace penstock::fixtures
