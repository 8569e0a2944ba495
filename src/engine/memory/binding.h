// What the memory engine keeps beside a limit: the keyed hash of its identity and the number of its parameters.
//
// Thread contract: immutable once made, read by any thread; destroyed by whoever lets go of the limit last.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "core/limit.h"
#include "engine/memory/param_table.h"

namespace penstock::engine {

struct MemoryBinding final : core::LimitBinding {
  // Takes over one reference to `number`, unless that is kNone (the table of parameters was full).
  MemoryBinding(const Hash128& identity_hash, uint32_t number, std::shared_ptr<ParamTable> parameters)
      : identity(identity_hash), params(number), table(std::move(parameters)) {}
  ~MemoryBinding() override {
    if (params != ParamTable::kNone) table->Release(params);
  }
  MemoryBinding(const MemoryBinding&) = delete;
  MemoryBinding& operator=(const MemoryBinding&) = delete;

  const Hash128 identity;
  const uint32_t params;
  const std::shared_ptr<ParamTable> table;  // a policy may outlive its engine
};

// Precondition: this engine registered or bound the limit.
inline const MemoryBinding& BindingOf(const core::Limit& limit) {
  return static_cast<const MemoryBinding&>(*limit.binding);
}

}  // namespace penstock::engine
