// One limit as the engines see it: parameters, version, and the identity of its buckets. Built by policy/, bound by
// an engine, immutable from then on; shared by all threads without a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/params.h"

namespace penstock::core {

// Versions come from the engine (rule E6): 0 is ad hoc (the last caller's parameters hold).
using Version = int64_t;

enum class OnFailure : uint8_t { kAllow, kDeny, kLocal };

// What an engine keeps beside a limit (an interned number, a hash of the identity). Owned by the limit so that it
// goes when the policy goes.
class LimitBinding {
 public:
  virtual ~LimitBinding() = default;
};

struct Limit {
  std::string domain;
  std::string name;
  std::string unit = "requests";
  // The canonical bytes of a bucket's identity without the key's values: domain, name, algorithm, window kind, key
  // attribute names and masks, and for some overrides the match text; every part length-prefixed.
  std::string identity;
  std::vector<std::string> key_names;  // the attributes of the key, in order
  // Which part of the key the domain's shard_by names, -1 = none: a store that divides its keys among servers puts
  // buckets of one domain with the same value there side by side.
  int shard_part = -1;
  LimitParams params;
  std::string timezone;  // calendar windows: an IANA name
  bool shadow = false;
  OnFailure on_failure = OnFailure::kLocal;
  // Permits in a store that may lose what it granted: nothing is granted for a lease after it may have; and a grant
  // counts only when so many replicas have it.
  bool strict = false;
  uint8_t replicas = 0;
  // Given by the service before it publishes the policy: the place of the limit's counters and lasting names.
  uint32_t number = 0;
  Version version = 0;                    // set when the engine registers the limit
  std::unique_ptr<LimitBinding> binding;  // likewise
};

inline bool IsPermits(const Limit& limit) { return limit.params.algorithm == Algorithm::kPermits; }

}  // namespace penstock::core
