#include "engine/permit_call.h"

#include "engine/engine.h"

namespace penstock::engine {

void EngineSession::CallPermits(std::span<PermitCall> calls, SteadyTime, PermitSink& sink) noexcept {
  for (PermitCall& call : calls) {
    call.fate = core::PermitFate::kUnavailable;
    call.reason = Reason::kEngineDown;
    sink.Called(call);
  }
}

}  // namespace penstock::engine
