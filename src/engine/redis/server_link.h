// The way to one server from one event loop: a connection that makes itself again, everything in flight pipelined on
// it, and a circuit breaker. While the breaker is open nothing waits: Send refuses at once.
//
// Thread contract: one event loop's thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/dialer.h"
#include "base/executor.h"
#include "engine/redis/clock_offset.h"
#include "engine/redis/exchange.h"
#include "engine/redis/link_stats.h"
#include "engine/redis/options.h"

namespace penstock::engine::redis {

// A reply that says: not here.
struct Redirect {
  enum class Kind : uint8_t {
    kMoved,
    kAsk,
    kReadOnly,     // a replica, or what was the master
    kTryAgain,     // its slot is on the move
    kClusterDown,  // the cluster, or the slot, is not served at present (CLUSTERDOWN, MASTERDOWN)
  };
  Kind kind = Kind::kMoved;
  int32_t slot = Exchange::kNoSlot;
  std::string host;  // empty: the host that answered
  uint16_t port = 0;
};

class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  // The exchange did not run and belongs elsewhere; from here on it is the owner's.
  virtual void Redirected(ServerLink& link, Exchange& exchange, const Redirect& redirect) noexcept = 0;
  // It became usable, or stopped being so.
  virtual void LinkChanged(ServerLink& link) noexcept = 0;
  // Neither may destroy the link that calls it.
};

class ServerLink {
 public:
  virtual ~ServerLink() = default;  // what is in flight gets Done(kUnknown), what is not sent Done(kNotRun)

  // Prepares and takes the exchange (kNone), or says why not: the breaker is open (kEngineDown) or the queue is full
  // (kOverload); then nothing of the exchange was called but perhaps Prepare. While the first connection is being made
  // an exchange waits for it, as long as its deadline allows. May be called from inside the owner's calls.
  virtual Reason Send(Exchange& exchange) noexcept = 0;
  // The same with ASKING before it.
  virtual Reason SendAsking(Exchange& exchange) noexcept = 0;

  virtual bool usable() const = 0;       // connected, greeted, its breaker closed
  virtual size_t in_flight() const = 0;  // sent or queued, not Done
  virtual ClockOffset&
  clock() = 0;  // asked by TIME when the connection is made, then noted by who reads replies
  virtual const DialTarget& target() const = 0;
  virtual std::string_view last_error()
      const = 0;  // why it is not usable, with the remedy where one is known
};

struct LinkParts {
  Dialer& dialer;
  Executor& executor;
  Timer& timer;
  const Clock& clock;
  // Loaded when a connection is made: Scripts(), or none where nothing is decided (Sentinel).
  std::span<const Script> scripts = {};
  LinkBook* book = nullptr;  // null: nobody counts
};

// A connection on which nothing is answered any more is closed this long after the breaker opened: replies that come
// after all are heard until then, since what they charged can be given back.
inline constexpr Micros kLinger = Seconds(5);
// After the first, an attempt has this long to connect, and as long again until it is greeted, or connect_timeout if
// that is shorter.
inline constexpr Micros kAttemptLimit = Millis(450);
// Commands that the kernel does not take, because the server does not read, are refused beyond this many bytes.
inline constexpr size_t kMaxUnsentBytes = 32 * 1'024 * 1'024;

// `options` and the book must outlive the link.
std::unique_ptr<ServerLink> OpenServerLink(const LinkParts& parts, const DialTarget& target,
                                           const Options& options, LinkOwner& owner);

}  // namespace penstock::engine::redis
