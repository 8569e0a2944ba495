// The deciding commands of the RESP port: reads each into a service request, and writes its reply when the answer is
// there. One an event loop.
//
// Thread contract: the loop's thread. The decider outlives it.
#pragma once

#include "api/handler.h"
#include "api/resp_check.h"
#include "api/turn.h"
#include "resp/session.h"
#include "service/decider.h"

namespace penstock::api {

class RespApi final : public RespHandler, private Asker<RespSlot> {
 public:
  RespApi(service::Decider& decider, const Clock& clock) : turn_(decider, clock) {}
  RespApi(const RespApi&) = delete;
  RespApi& operator=(const RespApi&) = delete;

  void Handle(const resp::Command& command, RespSlot slot) noexcept override;
  void Flush() noexcept override { turn_.Flush(); }
  void Closed(Peer& peer) noexcept override { turn_.Closed(peer); }
  bool Waits(const Peer& peer) const noexcept override { return RespTurn::Waits(peer); }
  const LatencyHistogram& latency() const { return turn_.latency(); }

 private:
  // RespAsk::what is the resp::CommandId; note: CL.THROTTLE: max_burst + 1, PEN.RELEASE: the place of the id.
  void Decided(const RespAsk& ask, const Result<const Decision*>& decision) noexcept override;
  void PermitAnswered(const RespAsk& ask, const service::PermitAnswer& answer) noexcept override;
  void HoldersListed(const RespAsk& ask, const Result<const service::Holders*>& holders) noexcept override;

  void Read(const resp::Command& command, const RespSlot& slot);
  void Release(const resp::Command& command, const RespSlot& slot);
  void Renew(const resp::Command& command, const RespSlot& slot);
  void List(const resp::Command& command, const RespSlot& slot);
  RespAsk For(const resp::Command& command, const RespSlot& slot);
  void AnswerError(const RespSlot& slot, const Error& error);

  RespTurn turn_;
  service::Request request_;  // reused: most of its fields never change
  RespCheckScratch scratch_;
};

}  // namespace penstock::api
