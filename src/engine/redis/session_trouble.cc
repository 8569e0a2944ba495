// What a Redis session tells the log.
#include <iterator>

#include "base/log.h"
#include "engine/redis/redis_session.h"

namespace penstock::engine::redis {

// What stands for longer than a beat. What a link is in trouble with, it has told itself.
void RedisSession::TellTrouble() {
  const std::string_view trouble = topology_->trouble();
  const bool stands = !trouble.empty() && trouble == trouble_;
  trouble_ = trouble;
  if (!stands) return;
  bool known = false;
  topology_->ForEachLink([&](ServerLink& link) {
    known |= !link.last_error().empty() && trouble.find(link.last_error()) != std::string_view::npos;
  });
  const SteadyTime now = engine_.clock().Steady();
  if (known || (trouble == told_ && now - told_at_ < kTellAgain)) return;
  told_ = trouble;
  told_at_ = now;
  Log(LogLevel::kWarning, "redis: " + told_);
}

// What an operator can mend, or should report, is told once in a while.
void RedisSession::TellOdd(const Ticket& ticket, ScriptCall::Answer answer) {
  using Answer = ScriptCall::Answer;
  if (answer == Answer::kDecided) [[likely]]
    return;
  struct Odd {
    Answer answer;
    const char* text;
  };
  static constexpr Odd kOdd[] = {
      {Answer::kFull,
       "OOM: the server is at maxmemory and may not evict; raise maxmemory, limits need "
       "maxmemory-policy noeviction"},
      {Answer::kForeign, "what stands under a key of ours is not ours; choose another prefix, or delete it"},
      {Answer::kNewer, "a newer Penstock wrote a bucket in a layout that this one does not know; upgrade"},
      {Answer::kNoRun,
       "a strict limit grants nothing, since the server does not say which run of it this is: give the user "
       "+info"},
      {Answer::kNoReplicas,
       "a strict limit grants nothing, since a master that is cut off would go on granting: set "
       "min-replicas-to-write to at least 1"},
      {Answer::kLag,
       "a strict limit grants nothing, since a master that is cut off would go on granting for too long: set "
       "min-replicas-to-write to at least 1, min-replicas-max-lag below the limit's lease, and give the user "
       "+config|get"},
      {Answer::kTooFewReplicas,
       "a permit was taken back, since fewer replicas had it in time than its limit asks for: look at the "
       "server's replicas, and give the user +wait"},
      {Answer::kBroken, "the script's answer and the rules do not agree; please report it"},
  };
  const SteadyTime now = engine_.clock().Steady();
  for (size_t i = 0; i < std::size(kOdd); ++i) {
    if (kOdd[i].answer != answer || now < odd_told_until_[i]) continue;
    odd_told_until_[i] = now + kTellAgain;
    std::string line = "redis: ";
    if (ticket.group != nullptr) line.append("domain ").append(ticket.group->domain).append(": ");
    Log(LogLevel::kWarning, line + kOdd[i].text);
  }
}

}  // namespace penstock::engine::redis
