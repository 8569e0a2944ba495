// The deciding commands of the RESP port: reads each into a service request, and writes its reply when the decision is
// there. One an event loop.
//
// Thread contract: the loop's thread. The decider outlives it.
#pragma once

#include "api/handler.h"
#include "api/pending.h"
#include "api/resp_check.h"
#include "api/turn.h"
#include "resp/session.h"
#include "service/decider.h"

namespace penstock::api {

class RespApi final : public RespHandler, private service::Receiver {
 public:
  RespApi(service::Decider& decider, const Clock& clock) : turn_(decider, clock) {}
  ~RespApi() override { turn_.decider().Detach(*this); }
  RespApi(const RespApi&) = delete;
  RespApi& operator=(const RespApi&) = delete;

  void Handle(const resp::Command& command, RespSlot slot) noexcept override;
  void Flush() noexcept override { turn_.Flush(); }
  const LatencyHistogram& latency() const { return turn_.latency(); }

 private:
  struct Pending {
    RespSlot slot;
    resp::CommandId command = resp::CommandId::kCheck;
    int64_t capacity = 0;  // CL.THROTTLE: max_burst + 1
    SteadyTime begin;
  };

  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override;

  void Read(const resp::Command& command, const RespSlot& slot);
  void AnswerError(const RespSlot& slot, const Error& error);

  Turn turn_;
  service::Request request_;  // reused: most of its fields never change
  RespCheckScratch scratch_;
  PendingPool<Pending> pending_;
};

}  // namespace penstock::api
