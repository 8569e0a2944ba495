// The connection that hears hints (hints.h): one a process, held by the first loop that takes the seat, and only while
// somebody listens. It goes to the server of a slot drawn by chance, which spreads a cluster's nodes: any node of one
// hears what is published on any other. With one server, or a Sentinel's master, that is the server that there is.
//
// It dials only where the topology has a usable link to (so a server that is away is not called twice), follows when
// the topology names another server, and asks for a word every kCheck, since a connection that is black-holed never says
// that it is over. Whenever it is subscribed anew, everyone who listens is told that hints may have been missed.
//
// Before it subscribes it publishes a word that nobody hears: a right to publish that is missing would show nowhere else.
// A user who lacks a right is named in the log once, with the rules; subscribing is tried again every kRefusedPause.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/dialer.h"
#include "base/executor.h"
#include "engine/redis/backoff.h"
#include "engine/redis/hints.h"
#include "engine/redis/options.h"
#include "engine/redis/reply_reader.h"
#include "engine/redis/server_link_greeting.h"
#include "engine/redis/topology.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

struct HintLineParts {
  Dialer& dialer;
  Timer& timer;
  const Clock& clock;
};

class HintLine final : private StreamHandler {
 public:
  static constexpr Micros kCheck = Seconds(1);
  static constexpr Micros kSilence = Seconds(3);  // without a word; then it is closed
  static constexpr Micros kRefusedPause = Seconds(30);

  // All outlive it.
  HintLine(Hints& hints, const HintLineParts& parts, const Options& options);
  ~HintLine() override { Stop(); }

  // The topology must outlive it, or Stop is called before.
  void Start(Topology& topology);
  void Stop();

 private:
  enum class Step : uint8_t { kIdle, kConnecting, kGreeting, kTrying, kSubscribing, kSubscribed };

  void Connected() noexcept override;
  std::span<char> ReceiveSpace() noexcept override { return reader_.Space(); }
  void Received(size_t count) noexcept override;
  void Closed(std::string_view why) noexcept override { Lost(why); }

  void Check();
  // The attempt took too long, or another one is due.
  void Due();
  void Connect();
  // Where it should be; null: nobody knows at present.
  const ServerLink* Wanted();
  void Close();
  void Lost(std::string_view why);
  void Heard(std::span<const resp::ReplyNode> reply);
  void HeardGreeting(std::span<const resp::ReplyNode> reply);
  void HeardSubscription(std::span<const resp::ReplyNode> reply);
  std::string Rules() const;
  // To the log, unless it was the last word.
  void Say(std::string_view what);

  // Constant after construction.
  Hints& hints_;
  const HintLineParts parts_;
  const Options& options_;
  const int32_t slot_;

  Topology* topology_ = nullptr;  // null: stopped
  bool seated_ = false;
  Alarm check_;
  Alarm due_;
  Backoff backoff_;
  // Invariant: step_ is kIdle exactly when stream_ is null.
  Step step_ = Step::kIdle;
  std::unique_ptr<Stream> stream_;
  DialTarget target_;
  std::optional<Greeting> greeting_;
  ReplyReader reader_;
  SteadyTime heard_;             // the last word
  std::string may_not_publish_;  // the refusal; empty: it may
  std::string said_;             // to the log, since all was well
};

}  // namespace penstock::engine::redis
