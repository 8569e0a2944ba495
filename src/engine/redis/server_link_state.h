// The link's own machine: attempts, back-off, breaker, deadlines. Internal to the link.
//
//   first attempt ──greeted──> usable ──lost, or time-outs in a row──> back-off ──> attempt ──greeted──> usable
//
// Exchanges wait only for the first attempt. A connection on which nothing is answered is set aside: new attempts are
// made beside it, and if its replies come after all before one of them succeeded it is taken back.
//
// Thread contract: one event loop's thread. Everything here may be called again from inside the calls it makes
// (Exchange::Done, Expired, the owner's); it may be shut down there, too, and then still ends what it began.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/redis/breaker.h"
#include "engine/redis/reply_table.h"
#include "engine/redis/server_link.h"
#include "engine/redis/server_link_connection.h"

namespace penstock::engine::redis {

class LinkState final : public ConnectionOwner, public std::enable_shared_from_this<LinkState> {
 public:
  LinkState(ServerLink& handle, const LinkParts& parts, const DialTarget& target, const Options& options,
            LinkOwner& owner);
  ~LinkState() override;

  void Open();
  // Everything that was taken gets its Done; nothing is called after it.
  void Shutdown();
  Reason Send(Exchange& exchange, bool asking);

  bool usable() const { return breaker_.closed() && current_ && current_->greeted(); }
  size_t in_flight() const;
  ClockOffset& clock() { return offset_; }
  const DialTarget& target() const { return target_; }
  std::string_view last_error() const { return last_error_; }

  void Connected(LinkConnection& connection) noexcept override;
  void Greeted(LinkConnection& connection) noexcept override;
  void Replied(LinkConnection& connection, const InFlight& entry, std::span<const resp::ReplyNode> nodes,
               SteadyTime received) noexcept override;
  void NotLoaded(LinkConnection& connection, std::string_view error) noexcept override;
  void TimeTold(EngineTime engine, SteadyTime received) noexcept override { offset_.Note(engine, received); }
  void Paused(LinkConnection& connection) noexcept override;
  void Ended(LinkConnection& connection, std::string_view why) noexcept override;

 private:
  static constexpr SteadyTime kNever{std::numeric_limits<int64_t>::max()};
  // How often an exchange's script is loaded for it before it is given up.
  static constexpr uint8_t kMaxLoads = 2;
  // After so long without a refusal an answer says that refusing is over.
  static constexpr Micros kRefusalOver = Seconds(10);

  struct Waiting {
    Exchange* exchange;
    bool asking;
  };
  enum class SetAside : uint8_t { kNo, kFrozen, kRefusing };

  void StartAttempt(SteadyTime now);
  Micros AttemptLimit() const;
  std::string WhyAttemptFailed() const;
  void BecameUsable();
  void SendWaiting();
  // The breaker opened while current_ is still connected: it is set aside.
  void SetCurrentAside(SteadyTime now);
  void CloseAside(std::string_view why);
  void ReplacedByAside();
  void OpenBreaker(std::string_view why);
  void CloseBreaker();
  // Ends the connection: each exchange on it gets its Done.
  void FailAll(std::shared_ptr<LinkConnection> connection);
  void FailWaiting(Reason reason);

  void ErrorReply(LinkConnection& connection, const InFlight& entry, std::span<const resp::ReplyNode> nodes,
                  SteadyTime received);
  void LoadAndRepeat(LinkConnection& connection, const InFlight& entry, const Reply& refusal);
  void CountFailure(const LinkConnection& connection, SetAside how, std::string_view why);
  void NoteRefusal(std::string_view error);
  void Answered(const LinkConnection& connection, const InFlight& entry, SteadyTime received);

  void OnTimer();
  void ExpireWaiting(SteadyTime now);
  void Expire(const std::shared_ptr<LinkConnection>& connection, SteadyTime now);
  SteadyTime NextInstant();
  void Arm(SteadyTime at);

  void Say(LogLevel level, std::string_view what);

  // Constant after construction.
  ServerLink& handle_;  // good until Shutdown
  const LinkParts parts_;
  const DialTarget target_;
  const Options& options_;
  LinkOwner& owner_;  // good until Shutdown
  const std::string name_;
  LinkStats* const stats_;

  Breaker breaker_;
  ClockOffset offset_;
  bool shut_ = false;
  bool first_ = true;                        // the first attempt is not over: exchanges wait for it
  std::shared_ptr<LinkConnection> current_;  // being made, or usable; null between two attempts
  std::shared_ptr<LinkConnection> aside_;    // given up for new exchanges, its replies still heard
  bool aside_may_return_ = false;
  SetAside to_set_aside_ = SetAside::kNo;  // current_, as soon as control is here again
  std::vector<Waiting> waiting_;

  SteadyTime attempt_began_;
  bool attempt_connected_ = false;  // the server's kernel took it
  SteadyTime attempt_until_ = kNever;
  SteadyTime retry_at_ = kNever;
  SteadyTime aside_until_ = kNever;
  SteadyTime down_since_;
  Timer::Id timer_ = 0;
  SteadyTime armed_at_ = kNever;  // kNever: no timer runs

  std::string last_error_;
  std::string_view
      last_refusal_;  // prefix of the last refusing reply that was told; empty: none, or it is over
  SteadyTime refused_at_;
  // The log: at most kLogBurst lines at once and one a kLogPause.
  static constexpr int kLogBurst = 10;
  static constexpr Micros kLogPause = Seconds(5);
  int log_left_ = kLogBurst;
  SteadyTime log_since_;
  uint64_t log_dropped_ = 0;
};

}  // namespace penstock::engine::redis
