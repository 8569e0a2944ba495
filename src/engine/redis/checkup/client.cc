#include "engine/redis/checkup/client.h"

#include <chrono>
#include <future>
#include <utility>

namespace penstock::checkup {
namespace {

void AppendCommand(std::string& out, const Command& command) {
  out += "*" + std::to_string(command.size()) + "\r\n";
  for (const std::string& word : command) out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
}

}  // namespace

// What is asked, and what came of it. Shared: the asker may have gone when the loop is done with it.
struct Client::Call {
  std::string bytes;      // what is sent at once
  size_t replies = 0;     // of that
  size_t rounds = 1;      // how often it is sent
  SteadyTime stop_after;  // no further round from then on

  SteadyTime sent;
  std::vector<Timed> heard;
  std::promise<Result<std::vector<Timed>>> promise;

  void Succeed() { promise.set_value(std::move(heard)); }
  void Fail(std::string why) {
    promise.set_value(tl::unexpected<Error>(Error{ErrorKind::kUnavailable, std::move(why)}));
  }
};

// The connection, on the loop's thread.
class Client::Line final : public StreamHandler {
 public:
  Line(LoopThread& loop, const DialTarget& target, const Login& login) : loop_(loop), target_(target) {
    if (!login.password.empty()) {
      AppendCommand(greeting_, login.user.empty() ? Command{"AUTH", login.password}
                                                  : Command{"AUTH", login.user, login.password});
      ++greeting_replies_;
    }
    if (login.database != 0) {
      AppendCommand(greeting_, {"SELECT", std::to_string(login.database)});
      ++greeting_replies_;
    }
  }

  void Begin(std::shared_ptr<Call> call) {
    call_ = std::move(call);
    if (stream_ == nullptr) {
      greeted_ = 0;
      received_.clear();
      unread_ = 0;
      parser_.Reset();
      connected_ = false;
      stream_ = loop_.dialer().Dial(target_, *this);
    } else if (connected_) {
      Send();
    }
  }
  // Nobody waits for it any longer: what would still come is not to be taken for the next answer.
  void GiveUp() {
    call_.reset();
    stream_.reset();
  }

  void Connected() noexcept override {
    connected_ = true;
    if (!greeting_.empty()) stream_->Write(greeting_);
    if (call_ != nullptr) Send();
  }
  std::span<char> ReceiveSpace() noexcept override {
    constexpr size_t kRead = 64 * 1'024;
    received_.erase(0, std::exchange(unread_, 0));
    filled_ = received_.size();
    received_.resize(filled_ + kRead);
    return {received_.data() + filled_, kRead};
  }
  void Received(size_t count) noexcept override {
    const SteadyTime now = loop_.clock().Steady();
    received_.resize(filled_ + count);
    for (;;) {
      const resp::ParseResult result = parser_.Parse(std::string_view(received_).substr(unread_));
      unread_ += result.consumed;
      if (result.status == resp::ParseStatus::kNeedMore) return;
      if (result.status == resp::ParseStatus::kError)
        return Lose("no reply in RESP: " + std::string(parser_.error()));
      if (!Take(Own(parser_.nodes()), now)) return;
    }
  }
  void Closed(std::string_view why) noexcept override { Lose(std::string(why)); }

 private:
  void Send() {
    call_->sent = loop_.clock().Steady();
    stream_->Write(call_->bytes);
  }
  // False: the connection has gone.
  bool Take(Value value, SteadyTime now) {
    if (greeted_ < greeting_replies_) {
      ++greeted_;
      if (!value.is_error()) return true;
      Lose(value.text);
      return false;
    }
    if (value.type == resp::ReplyType::kPush || call_ == nullptr) return true;
    call_->heard.push_back({std::move(value), call_->sent, now});
    if (call_->heard.size() % call_->replies != 0) return true;
    if (call_->heard.size() / call_->replies < call_->rounds && now < call_->stop_after) {
      Send();
    } else {
      std::exchange(call_, nullptr)->Succeed();
    }
    return true;
  }
  void Lose(std::string why) {
    stream_.reset();
    if (call_ != nullptr) std::exchange(call_, nullptr)->Fail(std::move(why));
  }

  LoopThread& loop_;
  const DialTarget& target_;
  std::string greeting_;
  size_t greeting_replies_ = 0;

  std::unique_ptr<Stream> stream_;
  bool connected_ = false;
  size_t greeted_ = 0;
  std::shared_ptr<Call> call_;  // the one that is under way
  resp::ReplyParser parser_;
  std::string received_;
  size_t filled_ = 0;
  size_t unread_ = 0;  // received_ up to here was parsed
};

Client::Client(LoopThread& loop, DialTarget target, Login login)
    : loop_(loop),
      target_(std::move(target)),
      login_(std::move(login)),
      line_(std::make_unique<Line>(loop, target_, login_)) {}

Client::~Client() {
  loop_.Run([this] { line_.reset(); });
}

void Client::HangUp() {
  loop_.Run([this] { line_->GiveUp(); });
}

Result<std::vector<Value>> Client::Ask(const std::vector<Command>& commands) {
  if (commands.empty()) return std::vector<Value>{};
  const auto call = std::make_shared<Call>();
  for (const Command& command : commands) AppendCommand(call->bytes, command);
  call->replies = commands.size();
  Result<std::vector<Timed>> heard = Carry(call, kPatience);
  if (!heard) return tl::unexpected(heard.error());
  std::vector<Value> values;
  values.reserve(heard->size());
  for (Timed& timed : *heard) values.push_back(std::move(timed.value));
  return values;
}

Result<Value> Client::Ask(const Command& command) {
  Result<std::vector<Value>> values = Ask(std::vector<Command>{command});
  if (!values) return tl::unexpected(values.error());
  return std::move(values->front());
}

Result<std::vector<Client::Timed>> Client::Repeat(const Command& command, size_t times, Micros most) {
  const auto call = std::make_shared<Call>();
  AppendCommand(call->bytes, command);
  call->replies = 1;
  call->rounds = times;
  call->stop_after = loop_.clock().Steady() + most;
  return Carry(call, kPatience + most);
}

Result<std::vector<Client::Timed>> Client::Carry(const std::shared_ptr<Call>& call, Micros patience) {
  std::future<Result<std::vector<Timed>>> answer = call->promise.get_future();
  loop_.Run([&] { line_->Begin(call); });
  if (answer.wait_for(std::chrono::microseconds(patience.count)) != std::future_status::ready) {
    loop_.Run([&] { line_->GiveUp(); });
    // It may have come in the meantime.
    if (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return Fail(ErrorKind::kUnavailable,
                  "no answer within " + std::to_string(CeilMillis(patience)) + " ms");
    }
  }
  return answer.get();
}

}  // namespace penstock::checkup
