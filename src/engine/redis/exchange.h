// One command on its way to a server and its reply on the way back.
//
// Life: given to ServerLink::Send, it belongs to the link until Done is called (or Divide said true). If its deadline
// passes first, Expired is called then, and Done follows when the reply comes after all, or is lost with its connection.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/time.h"
#include "engine/redis/clock_offset.h"
#include "engine/redis/script.h"
#include "penstock/decision.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis {

class ServerLink;

// What is known of a command (rule E10). What may have run is never sent again.
enum class Fate : uint8_t {
  kReplied,  // `nodes` is the server's answer
  kNotRun,   // it never ran: not sent, or refused by a reply that says so
  kUnknown,  // sent, and its reply will not come
};

struct Reply {
  Fate fate = Fate::kNotRun;
  // kReplied: the root first; views into a buffer that is gone after Done. It may be an error that the table of replies
  // (reply_table.h) leaves to the caller.
  std::span<const resp::ReplyNode> nodes;
  Reason reason = Reason::kNone;  // not kReplied: why
  SteadyTime received;            // when the bytes were read
  ServerLink* link = nullptr;     // who answered
  bool same = false;  // what is sent on it before Done returns goes by the connection that answered
};

class Exchange {
 public:
  static constexpr int32_t kNoSlot = -1;
  static constexpr Micros kNoBound{int64_t{1} << 52};

  virtual ~Exchange() = default;

  // About to be sent on this link (again on another one after a redirect): writes what depends on the server's clock.
  virtual void Prepare(const ClockOffset& clock) noexcept { (void)clock; }
  // The same, and before it: for how long that server goes on writing once it is cut off from its replicas (0: none can
  // take its place; kNoBound: it does, or cannot be asked).
  virtual void Meet(Micros max_lag) noexcept { (void)max_lag; }
  // The whole command in RESP. Unchanged from Prepare until Done.
  virtual std::string_view command() const noexcept = 0;
  // EVALSHA's script, so that NOSCRIPT can be recovered from; null for other commands.
  virtual const Script* script() const noexcept { return nullptr; }

  // It was refused since its keys are not all in one place (TRYAGAIN). True: it was for several, its owner took it back
  // and asks for each by itself; Done does not come. False: it is for one, which has to wait.
  virtual bool Divide() noexcept { return false; }

  virtual void Expired() noexcept = 0;
  // May destroy or reuse this object.
  virtual void Done(const Reply& reply) noexcept = 0;

  SteadyTime deadline;
  int32_t slot = kNoSlot;  // cluster: of its keys
  int redirects = 0;       // how often it was sent elsewhere; bounded
};

}  // namespace penstock::engine::redis
