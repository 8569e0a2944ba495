// Host names to addresses, off the event loops: one thread a process asks the system, which may take seconds, and is
// there only while somebody waits. Answers are kept for a few seconds, so that a fleet of connections that come back
// together asks once.
//
// Thread contract: any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/time.h"

namespace penstock::net {

struct Resolved {
  std::vector<IpAddress> addresses;
  std::string error;  // why there are none
};

inline constexpr size_t kMaxLookups = 256;        // waiting; more are refused at once
inline constexpr size_t kMaxKeptLookups = 1'024;  // answers kept
inline constexpr size_t kMaxAddresses = 16;       // of one name
inline constexpr Micros kKeepResolved = Seconds(5);
inline constexpr Micros kKeepUnresolved = Seconds(1);

using ResolveFunction =
    std::function<void(const std::string& host, std::function<void(const Resolved&)> done)>;

// Calls `done` once: on the resolver's thread, or from inside this call when the answer is at hand (or the queue is
// full).
void Resolve(const std::string& host, std::function<void(const Resolved&)> done);

}  // namespace penstock::net
