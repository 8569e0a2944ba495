// How limits get their versions and bindings.
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/memory/binding.h"
#include "engine/memory/memory_session.h"
#include "engine/memory/registry.h"

namespace penstock::engine {
namespace {

void AppendNumber(std::string& out, int64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

// Everything whose change makes a new version.
void AppendContent(std::string& out, const core::Limit& limit) {
  const core::LimitParams& params = limit.params;
  AppendNumber(out, static_cast<int64_t>(limit.identity.size()));
  out += limit.identity;
  for (const int64_t part : {static_cast<int64_t>(params.algorithm), static_cast<int64_t>(params.window),
                             static_cast<int64_t>(params.kind), params.capacity, params.count,
                             params.period.count, params.tick.count, params.drain, params.unit_cost}) {
    AppendNumber(out, part);
  }
}

}  // namespace

void MemorySession::Register(std::span<core::Limit* const> limits, std::function<void(Result<void>)> done) {
  done(RegisterAll(limits));
}

// A limit and its overrides share domain and name: they are one registration, with one version.
Result<void> MemorySession::RegisterAll(std::span<core::Limit* const> limits) {
  struct Registration {
    std::string content;
    core::Version version = 0;
  };
  std::unordered_map<std::string, Registration> registrations;
  const auto key_of = [](const core::Limit& limit) {
    std::string key;
    AppendNumber(key, static_cast<int64_t>(limit.domain.size()));
    return key + limit.domain + limit.name;
  };
  for (const core::Limit* limit : limits) {
    if (Result<void> can = engine_.CanHold(limit->params); !can) {
      return Invalid(limit->domain + "/" + limit->name + ": " + can.error().message);
    }
    AppendContent(registrations[key_of(*limit)].content, *limit);
  }
  const EngineTime now = engine_.Now();
  for (auto& [key, registration] : registrations) {
    registration.version = engine_.registry_->Register(engine_.hash_key_.Hash(key),
                                                       engine_.hash_key_.Hash(registration.content), now);
    if (registration.version == 0)
      return Fail(ErrorKind::kTooLarge, "more limits than the engine can remember");
  }
  for (core::Limit* limit : limits) {
    limit->version = registrations[key_of(*limit)].version;
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
