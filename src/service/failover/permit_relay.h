// Releases and renewals while, and after, this node stood in for the engine. A permit that the engine granted is the
// engine's alone. One that was granted here is asked for here as long as the engine was not told of it, and there from
// then on; over several buckets each has its own turn.
//
// Thread contract: one event loop's thread.
#pragma once

#include <list>
#include <span>

#include "engine/engine.h"
#include "service/failover/node.h"

namespace penstock::service {

class PermitRelay final : private engine::PermitSink {
 public:
  // All must outlive it; the remote session has answered every call before it goes.
  PermitRelay(FailoverNode& node, engine::EngineSession& remote, engine::EngineSession& local)
      : node_(node), remote_(remote), local_(local) {}

  void Call(std::span<engine::PermitCall> calls, SteadyTime deadline, engine::PermitSink& sink) noexcept;

 private:
  // A call on its way to the engine with those places that it knows.
  struct Forward {
    engine::PermitCall call;
    engine::PermitCall* original = nullptr;
    engine::PermitSink* sink = nullptr;
  };

  void Called(engine::PermitCall& call) noexcept override;
  void CallLocal(engine::PermitCall& call, SteadyTime deadline, engine::PermitSink& sink);
  // Asks the local engine about one place. True: it is this node's alone, and `call` has its fate; false: the engine was
  // told of it, or is just being told.
  bool AskHere(const Hash128& id, const LocalPermit& permit, const LocalPermit::Place& place,
               engine::PermitCall& call);

  FailoverNode& node_;
  engine::EngineSession& remote_;
  engine::EngineSession& local_;
  std::list<Forward> forwards_;
};

}  // namespace penstock::service
