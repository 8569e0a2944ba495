// A permit that is held: a unit of a limit on concurrency, kept alive by the library and given back when the object goes.
//
//   penstock::Acquired got = limiter.Acquire("exports", {{"tenant", "42"}}, {.max_wait = std::chrono::seconds(5)});
//   if (!got) return TryLater(got.decision);
//   RunExport(got.permit.lost());   // stops when the permit is lost: somebody else may hold it from then on
//
// The library renews a permit at a third of its lease. It is lost when the store says so, or when it could not be
// renewed before its owner's deadline: the monotonic instant before it was asked for (or last renewed), plus what was
// waited, plus the lease, minus the larger of 50 ms and a twentieth of the lease. So whoever stops by then never works
// beside the next holder, as long as no clock runs more than a twentieth too fast.
//
// Thread contract: a Permit is for one thread at a time, its lost() token for any. It may outlive its Limiter: it is
// lost then, and what it held was given back.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>

#include "penstock/decision.h"
#include "penstock/export.h"

namespace penstock {

class PENSTOCK_EXPORT Permit {
 public:
  class State;  // the library's own

  Permit() noexcept;  // holds nothing
  Permit(Permit&& other) noexcept;
  Permit& operator=(Permit&& other) noexcept;  // gives back what it held
  ~Permit();                                   // gives back

  // False: nothing was granted, or it is lost, or given back, or its owner's deadline has passed.
  bool held() const noexcept;
  explicit operator bool() const noexcept { return held(); }

  std::string_view id() const noexcept;           // empty: nothing was granted
  std::optional<int64_t> fence() const noexcept;  // where one limit granted it
  // Until when it is held unless it is renewed, which the library does.
  std::chrono::steady_clock::time_point deadline() const noexcept;
  // Is asked to stop at the moment the permit is known to be lost, not when it is given back. Its callbacks run on a
  // thread of the library: keep them short, and wait for nothing there. Where nothing was granted it is never asked.
  std::stop_token lost() const noexcept;

  // Gives back now. Returns at once; where the store cannot be asked the library tries until the lease has run out.
  void GiveBack() noexcept;

 private:
  friend class Limiter;
  explicit Permit(std::shared_ptr<State> state) noexcept;

  std::shared_ptr<State> state_;  // null: nothing was granted
};

// What an Acquire came to. `allowed` without a permit: no permit limit applied, or the store could not be asked and
// on_failure lets it pass.
struct Acquired {
  Decision decision;
  Permit permit;
  explicit operator bool() const { return decision.allowed; }
};

}  // namespace penstock
