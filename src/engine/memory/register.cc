// How limits get their bindings.
#include "engine/memory/binding.h"
#include "engine/memory/memory_session.h"
#include "engine/memory/registry.h"

namespace penstock::engine {

LimitRegistry& MemorySession::registry() { return *engine_.registry_; }

Result<void> MemorySession::Bind(std::span<core::Limit* const> limits) {
  for (core::Limit* limit : limits) {
    if (Result<void> can = engine_.CanHold(limit->params); !can) {
      return Invalid(limit->domain + "/" + limit->name + ": " + can.error().message);
    }
    if (limit->replicas > 0) {
      return Invalid(limit->domain + "/" + limit->name + ": replicas: the memory engine has none");
    }
  }
  for (core::Limit* limit : limits) {
    const uint32_t params = engine_.params_->Intern(limit->params, limit->version);
    if (params == ParamTable::kNone)
      return Fail(ErrorKind::kTooLarge, "more parameters in use than the engine holds");
    limit->binding =
        std::make_unique<MemoryBinding>(engine_.hash_key_.Hash(limit->identity), params, engine_.params_);
  }
  return {};
}

bool MemorySession::BindAdHoc(core::Limit& limit) {
  limit.version = 0;
  const uint32_t params = engine_.params_->Intern(limit.params, 0);
  limit.binding =
      std::make_unique<MemoryBinding>(engine_.hash_key_.Hash(limit.identity), params, engine_.params_);
  return params != ParamTable::kNone;
}

}  // namespace penstock::engine
