#include "engine/redis/server_link_state.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/redis/count.h"

namespace penstock::engine::redis {
namespace {

LinkStats& Uncounted() {
  static LinkStats* const nobody = new LinkStats("");  // never read
  return *nobody;
}

std::string InSeconds(Micros duration) {
  std::string out;
  AppendInt(out, duration.count / 1'000'000);
  out += '.';
  AppendInt(out, duration.count / 100'000 % 10);
  return out + " s";
}

}  // namespace

LinkState::LinkState(ServerLink& handle, const LinkParts& parts, const DialTarget& target,
                     const Options& options, LinkOwner& owner)
    : handle_(handle),
      parts_(parts),
      target_(target),
      options_(options),
      owner_(owner),
      name_(target.Text()),
      stats_(parts.book != nullptr ? &parts.book->Of(name_) : &Uncounted()),
      breaker_({options.breaker_failures, options.backoff_min, options.backoff_max, RandomSeed()}) {
  stats_->links.fetch_add(1, std::memory_order_relaxed);
}

LinkState::~LinkState() {
  stats_->links.fetch_sub(1, std::memory_order_relaxed);
  if (!breaker_.closed()) stats_->open_breakers.fetch_sub(1, std::memory_order_relaxed);
}

void LinkState::Open() {
  log_since_ = down_since_ = parts_.clock.Steady();
  StartAttempt(down_since_);
}

void LinkState::Shutdown() {
  const auto self = shared_from_this();
  shut_ = true;
  if (armed_at_ != kNever) parts_.timer.Cancel(timer_);
  armed_at_ = kNever;
  FailWaiting(Reason::kEngineDown);
  FailAll(std::move(current_));
  FailAll(std::move(aside_));
}

size_t LinkState::in_flight() const {
  return waiting_.size() + (current_ ? current_->exchanges() : 0) + (aside_ ? aside_->exchanges() : 0);
}

Reason LinkState::Send(Exchange& exchange, bool asking) {
  if (shut_) return Reason::kEngineDown;
  if (!breaker_.closed() || !current_) {
    Count(stats_->refused_open);
    return Reason::kEngineDown;
  }
  if (waiting_.size() + current_->exchanges() >= options_.max_in_flight ||
      current_->unsent() > kMaxUnsentBytes) {
    Count(stats_->refused_full);
    return Reason::kOverload;
  }
  if (current_->greeted()) {
    exchange.Meet(current_->max_lag());
    exchange.Prepare(offset_);
    current_->Submit(exchange, asking);
  } else {
    waiting_.push_back({&exchange, asking});
  }
  if (exchange.deadline < armed_at_) Arm(exchange.deadline);
  return Reason::kNone;
}

// ---- attempts

Micros LinkState::AttemptLimit() const {
  return first_ ? options_.connect_timeout : std::min(options_.connect_timeout, kAttemptLimit);
}

std::string LinkState::WhyAttemptFailed() const {
  const std::string limit = std::to_string(CeilMillis(AttemptLimit())) + " ms";
  if (attempt_connected_)
    return "connected, but not answered within " + limit + "; is the server stopped or overloaded?";
  return "no connection within " + limit + "; does something drop packets, or is the name's look-up slow?";
}

void LinkState::StartAttempt(SteadyTime now) {
  retry_at_ = kNever;
  attempt_began_ = now;
  attempt_connected_ = false;
  attempt_until_ = now + AttemptLimit();
  current_ = std::make_shared<LinkConnection>(*this, parts_.clock, options_, parts_.scripts);
  current_->Dial(parts_.dialer, target_);
  if (attempt_until_ < armed_at_) Arm(attempt_until_);
}

void LinkState::Connected(LinkConnection& connection) noexcept {
  if (&connection != current_.get()) return;
  attempt_connected_ = true;
  attempt_until_ = parts_.clock.Steady() + AttemptLimit();
}

void LinkState::Greeted(LinkConnection& connection) noexcept {
  if (&connection != current_.get()) return;
  Count(stats_->connects);
  BecameUsable();
}

void LinkState::BecameUsable() {
  attempt_until_ = retry_at_ = kNever;
  if (breaker_.closed()) {
    Say(LogLevel::kInfo, "connected");
  } else {
    Say(LogLevel::kInfo, "usable again after " + InSeconds(parts_.clock.Steady() - down_since_));
    CloseBreaker();
  }
  first_ = false;
  last_error_.clear();
  last_refusal_ = {};
  SendWaiting();
  owner_.LinkChanged(handle_);
}

void LinkState::SendWaiting() {
  for (const Waiting& next : std::exchange(waiting_, {})) {
    next.exchange->Meet(current_->max_lag());
    next.exchange->Prepare(offset_);
    current_->Submit(*next.exchange, next.asking);
  }
}

void LinkState::Ended(LinkConnection& connection, std::string_view why) noexcept {
  const auto self = shared_from_this();
  if (&connection == aside_.get()) return CloseAside(why);
  if (&connection != current_.get()) return;
  const SteadyTime now = parts_.clock.Steady();
  const bool was_greeted = connection.greeted();
  const bool told = usable() || first_ || to_set_aside_ != SetAside::kNo;
  Count(was_greeted ? stats_->lost : stats_->failed_connects);
  attempt_until_ = kNever;
  to_set_aside_ = SetAside::kNo;
  first_ = false;
  retry_at_ = std::max(now, (was_greeted ? now : attempt_began_) + breaker_.NextDelay());
  OpenBreaker(why);
  if (retry_at_ < armed_at_) Arm(retry_at_);
  FailAll(std::move(current_));
  FailWaiting(Reason::kEngineDown);
  if (told && !shut_) owner_.LinkChanged(handle_);
}

// ---- the connection that is set aside

void LinkState::SetCurrentAside(SteadyTime now) {
  const auto self = shared_from_this();
  const SetAside how = std::exchange(to_set_aside_, SetAside::kNo);
  if (how == SetAside::kNo || !current_) return;
  if (aside_) CloseAside("another one has to be set aside");
  if (shut_) return;
  aside_ = std::move(current_);
  aside_may_return_ = how == SetAside::kFrozen;
  aside_until_ = now + kLinger;
  retry_at_ = now + breaker_.NextDelay();
  Arm(std::min(retry_at_, armed_at_));
  if (aside_->fifo().empty()) CloseAside("");
  if (!shut_) owner_.LinkChanged(handle_);
}

void LinkState::CloseAside(std::string_view why) {
  aside_until_ = kNever;
  const size_t lost = aside_->exchanges();
  if (lost > 0) {
    Count(stats_->given_up);
    std::string text = "the connection is given up: ";
    text.append(why).append("; commands whose fate stays unknown: ");
    AppendInt(text, static_cast<int64_t>(lost));
    Say(LogLevel::kWarning, text);
  }
  FailAll(std::move(aside_));
}

// Everything on it was answered after all, and no attempt has succeeded yet.
void LinkState::ReplacedByAside() {
  aside_until_ = kNever;
  if (current_) current_->Close();  // nothing was sent on it but the greeting
  current_ = std::move(aside_);
  BecameUsable();
}

void LinkState::Paused(LinkConnection& connection) noexcept {
  const auto self = shared_from_this();
  if (&connection == current_.get()) {
    if (to_set_aside_ != SetAside::kNo) SetCurrentAside(parts_.clock.Steady());
    return;
  }
  if (&connection != aside_.get() || !connection.fifo().empty()) return;
  if (aside_may_return_ && !breaker_.closed()) return ReplacedByAside();
  CloseAside("");
}

// ---- breaker and ends

void LinkState::OpenBreaker(std::string_view why) {
  if (breaker_.closed()) {
    breaker_.Open();
    stats_->open_breakers.fetch_add(1, std::memory_order_relaxed);
    down_since_ = parts_.clock.Steady();
  } else if (last_error_ == why) {
    return;  // an attempt that fails as the last one did is nothing new
  }
  last_error_ = why;
  Say(LogLevel::kWarning, "not usable: " + last_error_);
}

void LinkState::CloseBreaker() {
  breaker_.Close();
  stats_->open_breakers.fetch_sub(1, std::memory_order_relaxed);
}

void LinkState::CountFailure(const LinkConnection& connection, SetAside how, std::string_view why) {
  if (&connection != current_.get() || to_set_aside_ != SetAside::kNo || !breaker_.Failed()) return;
  to_set_aside_ = how;
  stats_->open_breakers.fetch_add(1, std::memory_order_relaxed);
  down_since_ = parts_.clock.Steady();
  last_error_ = why;
  Say(LogLevel::kWarning, "not usable: " + last_error_);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): held, since those who hear may let it go
void LinkState::FailAll(std::shared_ptr<LinkConnection> connection) {
  if (!connection) return;
  connection->Close();
  const SteadyTime now = parts_.clock.Steady();
  while (!connection->fifo().empty()) {
    const InFlight entry = connection->fifo().Pop();
    if (entry.kind != InFlight::Kind::kExchange) continue;
    Reply reply;
    reply.fate = connection->WasSent(entry) ? Fate::kUnknown : Fate::kNotRun;
    reply.reason = entry.expired ? Reason::kTimeout : Reason::kEngineDown;
    reply.received = now;
    entry.exchange->Done(reply);
  }
}

void LinkState::FailWaiting(Reason reason) {
  const SteadyTime now = parts_.clock.Steady();
  for (const Waiting& next : std::exchange(waiting_, {})) {
    Reply reply;
    reply.reason = reason;
    reply.received = now;
    next.exchange->Done(reply);
  }
}

// ---- replies

void LinkState::Replied(LinkConnection& connection, const InFlight& entry,
                        std::span<const resp::ReplyNode> nodes, SteadyTime received) noexcept {
  if (entry.expired) Count(stats_->late);
  if (nodes.front().type == resp::ReplyType::kError) return ErrorReply(connection, entry, nodes, received);
  Answered(connection, entry, received);
  Reply reply;
  reply.fate = Fate::kReplied;
  reply.nodes = nodes;
  reply.received = received;
  reply.link = &handle_;
  reply.same = &connection == current_.get();
  entry.exchange->Done(reply);
}

void LinkState::ErrorReply(LinkConnection& connection, const InFlight& entry,
                           std::span<const resp::ReplyNode> nodes, SteadyTime received) {
  const std::string_view error = nodes.front().text;
  const ReplyMeaning& row = MeaningOf(error);
  Count(stats_->errors[static_cast<size_t>(&row - ReplyTable().data())]);
  Reply reply;
  reply.nodes = nodes;
  reply.received = received;
  reply.link = &handle_;
  reply.reason = entry.expired ? Reason::kTimeout : Reason::kEngineDown;
  switch (row.action) {
    case ReplyAction::kLoadScript:
      if (!entry.expired) return LoadAndRepeat(connection, entry, reply);
      break;
    case ReplyAction::kRedirect:
      if (const auto redirect = ParseRedirect(error, *row.redirect); redirect && !entry.expired) {
        return owner_.Redirected(handle_, *entry.exchange, *redirect);
      }
      break;
    case ReplyAction::kBackOff:
      CountFailure(connection, SetAside::kRefusing, Explain(error));
      break;
    case ReplyAction::kRefuse:
      NoteRefusal(error);
      break;
    case ReplyAction::kCaller:
      Answered(connection, entry, received);
      if (IsAboutPermission(error)) NoteRefusal(error);
      reply.fate = Fate::kReplied;
      reply.reason = Reason::kNone;
      break;
  }
  entry.exchange->Done(reply);
}

void LinkState::LoadAndRepeat(LinkConnection& connection, const InFlight& entry, const Reply& refusal) {
  Count(stats_->scripts_missing);
  if (entry.exchange->script() == nullptr || entry.loads >= kMaxLoads) {
    if (last_refusal_.empty())
      NoteRefusal(refusal.nodes.front().text);  // else it was told why it cannot be loaded
    return entry.exchange->Done(refusal);
  }
  connection.SubmitAgain(entry);
  if (entry.deadline < armed_at_) Arm(entry.deadline);
}

void LinkState::NotLoaded(LinkConnection&, std::string_view error) noexcept { NoteRefusal(error); }

// Told once until another kind of refusal comes, or none came for a while.
void LinkState::NoteRefusal(std::string_view error) {
  const std::string_view prefix = MeaningOf(error).prefix;
  const std::string_view kind = prefix.empty() ? "other" : prefix;
  refused_at_ = parts_.clock.Steady();
  if (kind == last_refusal_) return;
  last_refusal_ = kind;
  last_error_ = Explain(error);
  Say(LogLevel::kWarning, "refuses commands: " + last_error_);
}

void LinkState::Answered(const LinkConnection& connection, const InFlight& entry, SteadyTime received) {
  if (entry.expired || &connection != current_.get()) return;
  breaker_.Answered();
  if (last_refusal_.empty() || received - refused_at_ < kRefusalOver) return;
  last_refusal_ = {};
  if (breaker_.closed()) last_error_.clear();
}

// ---- time

void LinkState::Arm(SteadyTime at) {
  if (armed_at_ != kNever) parts_.timer.Cancel(timer_);
  armed_at_ = at;
  if (at != kNever) timer_ = parts_.timer.Schedule(at, [this] { OnTimer(); });
}

SteadyTime LinkState::NextInstant() {
  SteadyTime next = std::min({attempt_until_, retry_at_, aside_until_});
  for (const Waiting& waiting : waiting_) next = std::min(next, waiting.exchange->deadline);
  for (const auto* connection : {&current_, &aside_}) {
    if (!*connection) continue;
    Fifo& fifo = (*connection)->fifo();
    for (uint64_t i = fifo.head(); i != fifo.tail(); ++i) {
      const InFlight& entry = fifo.at(i);
      if (entry.kind == InFlight::Kind::kExchange && !entry.expired) next = std::min(next, entry.deadline);
    }
  }
  return next;
}

void LinkState::OnTimer() {
  const auto self = shared_from_this();
  armed_at_ = kNever;
  const SteadyTime now = parts_.clock.Steady();
  ExpireWaiting(now);
  if (current_) Expire(current_, now);
  if (aside_) Expire(aside_, now);
  if (to_set_aside_ != SetAside::kNo && !shut_) SetCurrentAside(now);
  if (current_ && attempt_until_ <= now) {
    Ended(*current_, WhyAttemptFailed());
  }
  if (aside_ && aside_until_ <= now) CloseAside("nothing was answered for " + InSeconds(kLinger));
  if (shut_) return;
  if (retry_at_ <= now) StartAttempt(now);
  Arm(NextInstant());
}

// What was not sent need not be waited for.
void LinkState::ExpireWaiting(SteadyTime now) {
  for (;;) {
    const auto due = std::find_if(waiting_.begin(), waiting_.end(), [now](const Waiting& waiting) {
      return waiting.exchange->deadline <= now;
    });
    if (due == waiting_.end()) return;
    Exchange& exchange = *due->exchange;
    waiting_.erase(due);
    Count(stats_->timeouts);
    Reply reply;
    reply.reason = Reason::kTimeout;
    reply.received = now;
    exchange.Done(reply);
  }
}

void LinkState::Expire(const std::shared_ptr<LinkConnection>& connection, SteadyTime now) {
  // Held, since those who hear may let it go.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<LinkConnection> held = connection;
  Fifo& fifo = held->fifo();
  const uint64_t end = fifo.tail();
  for (uint64_t i = fifo.head(); i < end && i < fifo.tail() && !shut_; ++i) {
    InFlight& entry = fifo.at(i);
    if (entry.kind != InFlight::Kind::kExchange || entry.expired || now < entry.deadline) continue;
    entry.expired = true;
    Exchange& exchange = *entry.exchange;
    Count(stats_->timeouts);
    CountFailure(
        *held, SetAside::kFrozen,
        "nothing is answered in time any more; is the server stopped or overloaded, or does something drop "
        "packets?");
    exchange.Expired();  // may send, which may move the entries
  }
}

// ---- the log

void LinkState::Say(LogLevel level, std::string_view what) {
  const SteadyTime now = parts_.clock.Steady();
  if (const int64_t earned = (now - log_since_).count / kLogPause.count; earned > 0) {
    log_left_ = static_cast<int>(std::min<int64_t>(log_left_ + earned, kLogBurst));
    log_since_ = now;
  }
  if (log_left_ == 0) {
    ++log_dropped_;
    return;
  }
  --log_left_;
  std::string line = "redis " + name_ + ": ";
  line += what;
  if (log_dropped_ > 0)
    line += " (" + std::to_string(std::exchange(log_dropped_, 0)) + " lines left out before)";
  Log(level, line);
}

}  // namespace penstock::engine::redis
