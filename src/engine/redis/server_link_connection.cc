#include "engine/redis/server_link_connection.h"

#include <algorithm>

#include "engine/redis/reply_table.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

// The largest reply that a store of limits has reason to send is the map of a large cluster.
constexpr resp::ReplyLimits kReplyLimits = {.max_depth = 8,
                                            .max_nodes = 262'144,
                                            .max_line_bytes = 64 * 1'024,
                                            .max_bulk_bytes = 16 * 1'024 * 1'024,
                                            .max_reply_bytes = 16 * 1'024 * 1'024};

}  // namespace

LinkConnection::LinkConnection(ConnectionOwner& owner, const Clock& clock, const Options& options,
                               std::span<const Script> scripts)
    : owner_(owner), clock_(clock), parser_(kReplyLimits), greeting_(options, scripts) {}

void LinkConnection::Dial(Dialer& dialer, const DialTarget& target) { stream_ = dialer.Dial(target, *this); }

void LinkConnection::Close() {
  if (std::exchange(closed_, true)) return;
  given_ = written_ - unsent();
  stream_.reset();
}

void LinkConnection::End(std::string_view why) {
  if (!closed_) owner_.Ended(*this, why);
}

// ---- what is sent

void LinkConnection::Write(std::string_view bytes) {
  written_ += bytes.size();
  stream_->Write(bytes);
}

void LinkConnection::PushGreeting() {
  Write(scratch_);
  scratch_.clear();
  InFlight entry;
  entry.kind = InFlight::Kind::kGreeting;
  entry.end = written_;
  while (fifo_.size() < greeting_.owed()) fifo_.Push(entry);
}

void LinkConnection::PushExchange(Exchange& exchange, uint8_t loads) {
  Write(exchange.command());
  InFlight entry;
  entry.exchange = &exchange;
  entry.deadline = exchange.deadline;
  entry.loads = loads;
  entry.end = written_;
  fifo_.Push(entry);
  ++exchanges_;
}

void LinkConnection::Submit(Exchange& exchange, bool asking) {
  if (asking) {
    Write("*1\r\n$6\r\nASKING\r\n");
    InFlight entry;
    entry.kind = InFlight::Kind::kAsking;
    entry.end = written_;
    fifo_.Push(entry);
  }
  PushExchange(exchange, 0);
}

void LinkConnection::LoadScript(const Script& script) {
  if (std::find(loading_.begin(), loading_.end(), &script) != loading_.end()) return;
  loading_.push_back(&script);
  resp::AppendCommand(scratch_, {"SCRIPT", "LOAD", script.text});
  Write(scratch_);
  scratch_.clear();
  InFlight entry;
  entry.kind = InFlight::Kind::kLoad;
  entry.script = &script;
  entry.end = written_;
  fifo_.Push(entry);
}

void LinkConnection::SubmitAgain(const InFlight& entry) {
  LoadScript(*entry.exchange->script());
  PushExchange(*entry.exchange, static_cast<uint8_t>(entry.loads + 1));
}

// ---- what comes

void LinkConnection::Connected() noexcept {
  const auto self = shared_from_this();
  greeting_.Begin(scratch_);
  PushGreeting();
  owner_.Connected(*this);
}

void LinkConnection::Closed(std::string_view why) noexcept {
  const auto self = shared_from_this();
  End(why);
}

void LinkConnection::Received(size_t count) noexcept {
  const auto self = shared_from_this();
  buffer_.Received(count);
  const SteadyTime received = clock_.Steady();
  for (;;) {
    const std::span<char> unread = buffer_.unread();
    const resp::ParseResult parsed = parser_.Parse({unread.data(), unread.size()});
    buffer_.Consume(parsed.consumed);  // the bytes stay where they are until the next read
    if (parsed.status == resp::ParseStatus::kNeedMore) break;
    if (parsed.status == resp::ParseStatus::kError) {
      return End("the server's reply is not RESP (" + std::string(parser_.error()) + ")");
    }
    if (!Answered(parser_.nodes(), received)) return;
  }
  owner_.Paused(*this);
}

bool LinkConnection::Answered(std::span<const resp::ReplyNode> nodes, SteadyTime received) {
  const resp::ReplyNode& root = nodes.front();
  if (root.type == resp::ReplyType::kPush) return true;
  if (fifo_.empty()) {
    End(root.type == resp::ReplyType::kError ? "the server said " + Explain(root.text)
                                             : "the server answered what was not asked");
    return false;
  }
  const InFlight entry = fifo_.Pop();
  switch (entry.kind) {
    case InFlight::Kind::kExchange:
      --exchanges_;
      owner_.Replied(*this, entry, nodes, received);
      break;
    case InFlight::Kind::kGreeting:
      return GreetingAnswered(nodes, received);
    case InFlight::Kind::kAsking:
      break;  // if it was refused, so is what follows
    case InFlight::Kind::kLoad:
      std::erase(loading_, entry.script);
      if (root.type == resp::ReplyType::kError) owner_.NotLoaded(*this, root.text);
      break;
  }
  return !closed_;
}

bool LinkConnection::GreetingAnswered(std::span<const resp::ReplyNode> nodes, SteadyTime received) {
  const Greeting::State state = greeting_.Next(nodes, scratch_);
  if (const std::optional<EngineTime> time = greeting_.TakeTime()) owner_.TimeTold(*time, received);
  switch (state) {
    case Greeting::State::kFailed:
      End(greeting_.why());
      return false;
    case Greeting::State::kGoesOn:
      PushGreeting();
      return true;
    case Greeting::State::kDone:
      break;
  }
  greeted_ = true;
  owner_.Greeted(*this);
  return !closed_;
}

}  // namespace penstock::engine::redis
