#include "engine/redis/hint_line.h"

#include "base/log.h"
#include "base/random.h"
#include "engine/redis/count.h"
#include "engine/redis/reply_table.h"
#include "engine/redis/slots.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

using resp::ReplyNode;
using resp::ReplyType;

// The largest is what HELLO says of a server with many modules.
constexpr resp::ReplyLimits kLimits = {.max_depth = 8,
                                       .max_nodes = 4'096,
                                       .max_line_bytes = 4'096,
                                       .max_bulk_bytes = 16'384,
                                       .max_reply_bytes = 262'144};

bool IsError(const ReplyNode& node) { return node.type == ReplyType::kError; }

}  // namespace

HintLine::HintLine(Hints& hints, const HintLineParts& parts, const Options& options)
    : hints_(hints),
      parts_(parts),
      options_(options),
      slot_(static_cast<int32_t>(RandomSeed() % kSlotCount)),
      check_(parts.timer, [this] { Check(); }),
      due_(parts.timer, [this] { Due(); }),
      backoff_({.least = options.backoff_min, .most = options.backoff_max, .seed = RandomSeed()}),
      reader_(kLimits, [this](std::span<const ReplyNode> reply) { Heard(reply); }) {}

void HintLine::Start(Topology& topology) {
  topology_ = &topology;
  check_.SetAt(parts_.clock.Steady());
}

void HintLine::Stop() {
  if (topology_ == nullptr) return;
  topology_ = nullptr;
  check_.Cancel();
  Close();
  if (seated_) hints_.LeaveSeat();
  seated_ = false;
}

void HintLine::Check() {
  const SteadyTime now = parts_.clock.Steady();
  check_.SetAt(now + kCheck);
  if (!seated_) seated_ = hints_.TakeSeat();
  if (!seated_) return;
  if (!hints_.wanted()) return Close();
  if (step_ == Step::kIdle && !due_.set()) return Connect();
  if (step_ != Step::kSubscribed) return;  // due_ looks after it
  if (const ServerLink* const wanted = Wanted(); wanted != nullptr && wanted->target() != target_) {
    Close();
    return Connect();
  }
  if (now - heard_ >= kSilence) return Lost("nothing is answered any more");
  std::string ping;
  resp::AppendCommand(ping, {"PING"});
  stream_->Write(ping);
}

void HintLine::Due() {
  if (step_ == Step::kIdle) return Connect();
  Lost("no answer in time");
}

const ServerLink* HintLine::Wanted() {
  const ServerLink* const link = topology_->LinkFor(slot_);
  return link != nullptr && link->usable() ? link : nullptr;
}

void HintLine::Connect() {
  const SteadyTime now = parts_.clock.Steady();
  const ServerLink* const wanted = Wanted();
  if (wanted == nullptr) return due_.SetAt(now + backoff_.Next());
  target_ = wanted->target();
  greeting_.emplace(options_, std::span<const Script>());
  may_not_publish_.clear();
  step_ = Step::kConnecting;
  due_.SetAt(now + options_.connect_timeout);
  stream_ = parts_.dialer.Dial(target_, *this);
}

void HintLine::Close() {
  if (step_ == Step::kSubscribed) hints_.stats().listening.fetch_sub(1, std::memory_order_relaxed);
  due_.Cancel();
  stream_.reset();
  reader_.Reset();
  step_ = Step::kIdle;
}

void HintLine::Lost(std::string_view why) {
  if (step_ == Step::kSubscribed) {
    Count(hints_.stats().lost);
  } else {
    Say("not subscribed to hints: " + std::string(why));
  }
  Close();
  due_.SetAt(parts_.clock.Steady() + backoff_.Next());
}

void HintLine::Connected() noexcept {
  step_ = Step::kGreeting;
  std::string greeting;
  greeting_->Begin(greeting);
  stream_->Write(greeting);
}

void HintLine::Received(size_t count) noexcept {
  heard_ = parts_.clock.Steady();
  if (const std::string_view wrong = reader_.Received(count); !wrong.empty()) Lost(wrong);
}

void HintLine::Heard(std::span<const ReplyNode> reply) {
  switch (step_) {
    case Step::kGreeting:
      return HeardGreeting(reply);
    case Step::kTrying:
      if (IsError(reply[0]) && IsAboutPermission(reply[0].text)) may_not_publish_ = reply[0].text;
      step_ = Step::kSubscribing;
      return;
    case Step::kSubscribing:
      return HeardSubscription(reply);
    case Step::kSubscribed:
      // message, channel, text; else it is the answer to a PING
      if (reply.size() == 4 && reply[0].children == 3 && reply[1].text == "message" &&
          reply[2].text == hints_.channel()) {
        hints_.Tell(reply[3].text);
      }
      return;
    case Step::kIdle:
    case Step::kConnecting:
      return Lost("a reply that nobody asked for");
  }
}

void HintLine::HeardGreeting(std::span<const ReplyNode> reply) {
  std::string more;
  const Greeting::State state = greeting_->Next(reply, more);
  if (state == Greeting::State::kFailed) return Lost(greeting_->why());
  if (state == Greeting::State::kDone) {
    step_ = Step::kTrying;
    resp::AppendCommand(more, {"PUBLISH", hints_.channel() + ":try", ""});
    resp::AppendCommand(more, {"SUBSCRIBE", hints_.channel()});
  }
  if (!more.empty()) stream_->Write(more);
}

void HintLine::HeardSubscription(std::span<const ReplyNode> reply) {
  const SteadyTime now = parts_.clock.Steady();
  if (IsError(reply[0]) && IsAboutPermission(reply[0].text)) {
    Count(hints_.stats().refused);
    Say("no hints are heard, so what others change is seen by asking alone: '" + std::string(reply[0].text) +
        "'; " + Rules());
    Close();
    return due_.SetAt(now + kRefusedPause);
  }
  if (IsError(reply[0])) return Lost(Explain(reply[0].text));
  if (reply.size() != 4 || reply[1].text != "subscribe") return Lost("SUBSCRIBE was not answered");
  step_ = Step::kSubscribed;
  due_.Cancel();
  backoff_.Reset();
  Count(hints_.stats().subscribed);
  hints_.stats().listening.fetch_add(1, std::memory_order_relaxed);
  if (may_not_publish_.empty()) {
    said_.clear();
  } else {
    Count(hints_.stats().refused);
    Say("no hints are given, so what this node changes is seen by asking alone: '" + may_not_publish_ +
        "'; " + Rules());
  }
  hints_.TellMissed();
}

std::string HintLine::Rules() const {
  return "the user's rules should have &" + options_.prefix + "* +publish +subscribe (ACL SETUSER)";
}

void HintLine::Say(std::string_view what) {
  std::string text = "redis " + target_.Text() + ": ";
  text += what;
  if (text == said_) return;
  said_ = std::move(text);
  Log(LogLevel::kWarning, said_);
}

}  // namespace penstock::engine::redis
