#include "engine/redis/sentinel_watch.h"

#include <string>

#include "base/bytes.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

using resp::ReplyNode;
using resp::ReplyType;

constexpr std::string_view kChannel = "+switch-master";
// A Sentinel's replies are a line or two.
constexpr resp::ReplyLimits kLimits = {.max_depth = 8,
                                       .max_nodes = 256,
                                       .max_line_bytes = 4'096,
                                       .max_bulk_bytes = 16'384,
                                       .max_reply_bytes = 65'536};

std::string Greeting(const Options& options) {
  std::string out;
  if (options.sentinel_password.empty()) {
    resp::AppendCommand(out, {"HELLO", "3"});
  } else {
    const std::string_view user =
        options.sentinel_user.empty() ? "default" : std::string_view(options.sentinel_user);
    resp::AppendCommand(out, {"HELLO", "3", "AUTH", user, options.sentinel_password});
  }
  return out;
}

std::string Refused(std::string_view what, std::string_view error) {
  std::string out(what);
  out += ": ";
  out += error;
  if (error.starts_with("NOAUTH") || error.starts_with("WRONGPASS")) {
    out += " (the URL's sentinel_user and sentinel_password are for the Sentinels)";
  } else if (error.starts_with("NOPERM")) {
    out += " (the Sentinel's ACL needs +sentinel|get-master-addr-by-name)";
  }
  return out;
}

}  // namespace

SentinelWatch::SentinelWatch(const TopologyParts& parts, const Options& options, SentinelListener& listener)
    : dialer_(parts.dialer),
      clock_(parts.clock),
      options_(options),
      listener_(listener),
      reader_(kLimits,
              [this](std::span<const ReplyNode> reply) {
                if (reply[0].type == ReplyType::kPush) {
                  HeardPush(reply);
                } else {
                  Heard(reply);
                }
              }),
      timeout_(parts.timer, [this] { Failed("no answer in time"); }) {}

void SentinelWatch::Ask() {
  if (wanted_) return;
  wanted_ = true;
  failed_ = 0;
  if (step_ == Step::kIdle) {
    Connect();
  } else if (step_ == Step::kReady) {
    Next();
  }
}

void SentinelWatch::Connect() {
  subscribed_ = false;
  again_ = false;
  step_ = Step::kConnecting;
  timeout_.SetAt(clock_.Steady() + kTimeout);
  stream_ = dialer_.Dial(options_.seeds[current_], *this);
}

void SentinelWatch::Connected() noexcept {
  step_ = Step::kGreeting;
  timeout_.SetAt(clock_.Steady() + kTimeout);
  stream_->Write(Greeting(options_));
}

void SentinelWatch::Failed(std::string_view why) {
  // The text may be in the buffer, and the stream's.
  const std::string text = options_.seeds[current_].Text() + ": " + std::string(why);
  timeout_.Cancel();
  stream_.reset();
  reader_.Reset();
  step_ = Step::kIdle;
  pending_ = Pending::kNothing;
  current_ = (current_ + 1) % options_.seeds.size();
  if (!wanted_) return;  // the next question finds another one
  if (++failed_ < options_.seeds.size()) return Connect();
  wanted_ = false;
  listener_.NobodyKnows(text);
}

void SentinelWatch::Next() {
  if (step_ != Step::kReady || pending_ != Pending::kNothing) return;
  std::string command;
  if (wanted_) {
    pending_ = Pending::kMaster;
    resp::AppendCommand(command, {"SENTINEL", "get-master-addr-by-name", options_.master_name});
  } else if (!subscribed_) {
    pending_ = Pending::kSubscribe;
    resp::AppendCommand(command, {"SUBSCRIBE", kChannel});
  } else {
    return;
  }
  timeout_.SetAt(clock_.Steady() + kTimeout);
  stream_->Write(command);
}

void SentinelWatch::Received(size_t count) noexcept {
  if (const std::string_view wrong = reader_.Received(count); !wrong.empty()) Failed(wrong);
}

void SentinelWatch::Heard(std::span<const ReplyNode> reply) {
  timeout_.Cancel();
  const bool error = reply[0].type == ReplyType::kError;
  if (step_ == Step::kGreeting) {
    if (error) return Failed(Refused("HELLO 3", reply[0].text));
    step_ = Step::kReady;
    return Next();
  }
  switch (pending_) {
    case Pending::kMaster:
      return HeardMaster(reply);
    case Pending::kSubscribe:  // what is confirmed comes as a push, so it was refused: a hint less
      subscribed_ = true;
      pending_ = Pending::kNothing;
      return Next();
    case Pending::kNothing:
      return Failed("a reply that nobody asked for");
  }
}

void SentinelWatch::HeardMaster(std::span<const ReplyNode> reply) {
  if (reply[0].type == ReplyType::kError) {
    return Failed(Refused("SENTINEL get-master-addr-by-name", reply[0].text));
  }
  if (reply[0].type == ReplyType::kNull) {
    return Failed("knows no master named " + options_.master_name);
  }
  const bool shape = reply[0].type == ReplyType::kArray && reply[0].children == 2 && reply.size() == 3 &&
                     reply[1].type == ReplyType::kBulk && reply[2].type == ReplyType::kBulk;
  const std::optional<int64_t> port = shape ? ParseInt(reply[2].text) : std::nullopt;
  if (!port || *port < 1 || *port > 65'535 || reply[1].text.empty()) {
    return Failed("SENTINEL get-master-addr-by-name has an answer of an unknown shape");
  }
  pending_ = Pending::kNothing;
  wanted_ = again_;
  again_ = false;
  failed_ = 0;
  const uint64_t generation = reader_.generation();
  listener_.MasterIs(reply[1].text, static_cast<uint16_t>(*port));
  if (generation == reader_.generation()) Next();
}

void SentinelWatch::HeardPush(std::span<const ReplyNode> push) {
  if (push.size() < 3 || push[0].children < 3) return;
  if (push[1].text == "subscribe") {
    if (pending_ != Pending::kSubscribe) return;
    timeout_.Cancel();
    subscribed_ = true;
    pending_ = Pending::kNothing;
    return Next();
  }
  // message, channel, "<name> <old host> <old port> <host> <port>"
  if (push[1].text != "message" || push.size() < 4 || push[2].text != kChannel) return;
  const std::string_view text = push[3].text;
  if (!text.starts_with(options_.master_name) || text.substr(options_.master_name.size(), 1) != " ") return;
  if (pending_ == Pending::kMaster) again_ = true;
  Ask();
}

}  // namespace penstock::engine::redis
