// What the topologies are made of: calls of their own over a link, exchanges that wait to be sent again, and links on
// their way out.
//
// Thread contract: one event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "engine/redis/backoff.h"
#include "engine/redis/exchange.h"
#include "engine/redis/server_link.h"
#include "engine/redis/topology.h"

namespace penstock::engine::redis {

using OpenLink = std::function<std::unique_ptr<ServerLink>(const DialTarget&, LinkOwner&)>;

struct TopologyParts {
  Timer& timer;
  const Clock& clock;
  Dialer& dialer;
  OpenLink open_link;
  TopologyCounters& counters;
};

// It did not run; the last word on the exchange.
void Refuse(Exchange& exchange, Reason reason) noexcept;

// One task at one instant, that goes with its owner.
class Alarm {
 public:
  Alarm(Timer& timer, std::function<void()> task) : timer_(timer), task_(std::move(task)) {}
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() { Cancel(); }

  void SetAt(SteadyTime at);  // instead of what was set
  void SetBy(SteadyTime at);  // the earlier of both
  void Cancel();
  bool set() const { return id_ != 0; }

 private:
  Timer& timer_;
  std::function<void()> task_;
  // Invariant: id_ is 0 when nothing is set; a Timer's id is not.
  Timer::Id id_ = 0;
  SteadyTime at_;
};

// A command of the topology itself. It is in use from Start until Done, even if it expired in between.
class ControlCall final : public Exchange {
 public:
  // Called once a Start: with the reply, with why there is none, or with kUnknown and kTimeout when it expired. The
  // call may be started again from there, unless it expired.
  using Heard = std::function<void(const Reply&)>;
  explicit ControlCall(Heard heard) : heard_(std::move(heard)) {}

  // Precondition: not in_use(). False: the link did not take it, and Heard is not called.
  bool Start(ServerLink& link, std::string command, SteadyTime at_latest);
  bool in_use() const { return in_use_; }
  // Whoever hears is on their way out: not called any more.
  void Silence() { heard_ = nullptr; }

  std::string_view command() const noexcept override { return command_; }
  void Expired() noexcept override;
  void Done(const Reply& reply) noexcept override;

 private:
  Heard heard_;
  std::string command_;
  bool in_use_ = false;
  bool told_ = false;
};

// Exchanges that did not run and wait to be sent again: each until its instant or its deadline, whichever is first.
class Parking {
 public:
  static constexpr size_t kMost = 65'536;  // beyond, an exchange is refused

  Parking(Timer& timer, const Clock& clock, TopologyCounters& counters,
          std::function<void(Exchange&)> send_again);
  ~Parking() { RefuseAll(); }

  void RefuseAll() noexcept;

  void Park(Exchange& exchange, SteadyTime until) noexcept;
  // Send them again now.
  void WakeAll() noexcept;
  size_t size() const { return parked_.size(); }

 private:
  struct Parked {
    Exchange* exchange = nullptr;
    SteadyTime until;
  };
  void Wake(bool all) noexcept;

  const Clock& clock_;
  TopologyCounters& counters_;
  std::function<void(Exchange&)> send_again_;
  std::vector<Parked> parked_;
  Alarm alarm_;
};

// Links that nothing new is sent on: each is closed when its last reply has come, or after kLongest. Closing is always
// in a turn of its own, so a link may be retired from inside a call that it makes.
class RetiredLinks {
 public:
  static constexpr Micros kLongest = Seconds(1);

  RetiredLinks(Timer& timer, const Clock& clock);
  void Add(std::unique_ptr<ServerLink> link);
  void CloseAll();

 private:
  struct Retired {
    std::unique_ptr<ServerLink> link;
    SteadyTime close_at;
  };
  void Sweep();

  const Clock& clock_;
  std::vector<Retired> links_;
  Alarm alarm_;
};

}  // namespace penstock::engine::redis
