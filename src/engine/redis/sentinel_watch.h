// A connection to one Sentinel at a time: who is the master of a name, asked when the owner wants to know, and told by
// itself when it changes (+switch-master), which is a hint to ask. A Sentinel that does not answer in time is left for
// the next one.
//
// It needs Sentinel 6 or newer (HELLO 3): one connection then carries both questions and what is published.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/dialer.h"
#include "engine/redis/options.h"
#include "engine/redis/reply_reader.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

class SentinelListener {
 public:
  virtual ~SentinelListener() = default;
  virtual void MasterIs(std::string_view host, uint16_t port) = 0;
  // Every Sentinel was asked and none named a master; `why` is of the last one.
  virtual void NobodyKnows(std::string_view why) = 0;
};

class SentinelWatch final : private StreamHandler {
 public:
  // For each step: connecting, greeting, a question.
  static constexpr Micros kTimeout = Millis(250);

  // The options outlive it.
  SentinelWatch(const TopologyParts& parts, const Options& options, SentinelListener& listener);

  // One of the listener's calls follows, later. Asked again meanwhile, it follows once.
  void Ask();

 private:
  enum class Step : uint8_t { kIdle, kConnecting, kGreeting, kReady };
  enum class Pending : uint8_t { kNothing, kMaster, kSubscribe };

  void Connected() noexcept override;
  std::span<char> ReceiveSpace() noexcept override { return reader_.Space(); }
  void Received(size_t count) noexcept override;
  void Closed(std::string_view why) noexcept override { Failed(why); }

  void Connect();
  void Failed(std::string_view why);
  // What is next on a greeted connection on which no reply is awaited.
  void Next();
  void Heard(std::span<const resp::ReplyNode> reply);
  void HeardPush(std::span<const resp::ReplyNode> push);
  void HeardMaster(std::span<const resp::ReplyNode> reply);

  Dialer& dialer_;
  const Clock& clock_;
  const Options& options_;
  SentinelListener& listener_;
  std::unique_ptr<Stream> stream_;
  ReplyReader reader_;
  Alarm timeout_;
  // Invariant: step_ is kIdle exactly when stream_ is null; pending_ is kNothing unless step_ is kReady.
  Step step_ = Step::kIdle;
  Pending pending_ = Pending::kNothing;
  bool subscribed_ = false;  // or told that it may not
  bool wanted_ = false;      // somebody waits for an answer
  bool again_ = false;       // the answer under way may be of before the change
  size_t current_ = 0;       // of options_.seeds
  size_t failed_ = 0;        // Sentinels in a row since the question was asked
};

}  // namespace penstock::engine::redis
