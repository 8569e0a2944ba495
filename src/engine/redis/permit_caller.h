// What a session asks about permits by their ids (engine/permit_call.h): releases, renewals, and places in queues that are
// given up. Like groups they are sent at the end of the loop's turn, many a script call; a permit over several slots is asked
// for in several calls, and its fate is what they say together.
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/later.h"
#include "engine/engine.h"
#include "engine/redis/asker.h"
#include "engine/redis/exchange.h"
#include "engine/redis/topology.h"

namespace penstock::engine::redis {

struct PermitCallerParts {
  Executor& executor;
  const Clock& clock;
  const Script& script;
  std::string_view prefix;
  Counters& counters;
};

class PermitCaller {
 public:
  static constexpr size_t kMaxCalls = 64;  // a script call
  static constexpr size_t kMaxQueued =
      65'536;  // that wait for the end of the turn; beyond, they are refused (overload)

  explicit PermitCaller(const PermitCallerParts& parts);
  ~PermitCaller();
  PermitCaller(const PermitCaller&) = delete;
  PermitCaller& operator=(const PermitCaller&) = delete;

  // The topology must outlive it, or Stop is called before.
  void Start(Topology& topology) { topology_ = &topology; }
  // Answers what is not sent yet, as unavailable. What is in flight is answered when the topology goes.
  void Stop();

  void Call(std::span<PermitCall> calls, SteadyTime deadline, PermitSink& sink) noexcept;
  // Says that somebody still waits in the bucket. Told are those of this session who would be granted now, and the time
  // until the nearest expiry: 0 where it could not be asked, below 0 where nobody waits there.
  using Looked = std::function<void(std::span<const Hash128> turns, Micros nearest)>;
  void Look(const Hash128& bucket, SteadyTime deadline, Looked looked);

  uint64_t session() const { return session_; }  // whose the asks are, by chance

 private:
  // A call, until all its places are answered.
  struct Request {
    PermitCall* call = nullptr;
    PermitSink* sink = nullptr;
    SteadyTime deadline;
    size_t open = 0;
    PermitCall told;  // what is known of it so far
    Looked looked;    // set: by Look; `call` is `own` then
    PermitCall own;
  };
  struct Item {
    Request* request = nullptr;
    uint8_t place = 0;  // of PermitId::places
    int redirects = 0;  // not 0: it goes in a call of its own
  };
  class ScriptRun;

  void Flush();
  void Send(std::span<const Item> items, int32_t slot);
  static int32_t SlotOf(const Item& item);
  void Refuse(const Item& item, Reason reason);
  void Answer(const Item& item, core::PermitFate fate, Micros expires_in, Reason reason);
  void Read(ScriptRun& run, const Reply& reply);
  bool ReadLook(const Item& item, std::string_view& answers);

  const PermitCallerParts parts_;
  const uint64_t session_;
  Topology* topology_ = nullptr;  // null: stopped
  std::vector<Item> queue_;
  Later flush_;  // at the end of the turn
};

}  // namespace penstock::engine::redis
