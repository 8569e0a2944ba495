// The limiter, embedded: policy and buckets in this process, decided inline; or, with an engine_url, buckets in a store
// that a fleet shares, asked by the library's own threads within a hard time-out.
//
//   auto limiter = penstock::Limiter::Open({.policy_file = "limits.yaml"});
//   if (!limiter) return Fail(limiter.error().message);
//   if (limiter->Check("api", {{"user", "42"}}).allowed) Serve();
//
// Every check gives a Decision. A request that is itself wrong (an unknown domain, a cost out of range) is answered
// with `allowed` false and `error` set; that is a mistake to mend, not a refusal. Nothing here throws, except that
// memory may run out.
//
// Thread contract: every method may be called from any thread at any time, but a Limiter must not be moved or
// destroyed while another call is under way. Arguments are read during the call only. The names in a Decision stay
// valid as long as the Limiter.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/decision.h"
#include "penstock/expected.h"
#include "penstock/export.h"
#include "penstock/options.h"
#include "penstock/permit.h"
#include "penstock/request.h"
#include "penstock/version.h"

namespace penstock {

struct LimiterStats {
  uint64_t keys = 0;  // buckets at hand
  uint64_t max_keys = 0;
  uint64_t checks = 0;        // asked so far
  uint64_t refused_full = 0;  // because max_keys were in use
};

class PENSTOCK_EXPORT Limiter {
 public:
  // Why it could not be opened: a policy that is wrong (file, line and reason, a line each), a snapshot that is damaged.
  static Expected<Limiter> Open(const LimiterOptions& options);

  Limiter(Limiter&& other) noexcept;
  Limiter& operator=(Limiter&& other) noexcept;
  ~Limiter();

  // Decides by the policy's limits that match the attributes, all or nothing, and charges if all allow it.
  Decision Check(std::string_view domain, std::span<const Attribute> attributes,
                 const CheckOptions& options = {});
  Decision Check(std::string_view domain, std::initializer_list<Attribute> attributes,
                 const CheckOptions& options = {}) {
    return Check(domain, std::span(attributes.begin(), attributes.size()), options);
  }
  // By a limit of the caller's own, without policy.
  Decision Check(std::string_view key, const AdHocLimit& limit, const CheckOptions& options = {});

  // Many at once, in order: cheaper a request, because their look-ups in memory overlap. decisions[i] answers
  // requests[i]; as many as the shorter of the two spans holds.
  void CheckMany(std::span<const Request> requests, std::span<Decision> decisions);

  // The same as Check, for callers that must not block: the callback is called once. In memory that is before
  // CheckAsync returns; a store's answer is told later, on a thread of the library: the callback must be short, and may
  // call CheckAsync again, but a call that would wait for the store is answered there with an error.
  using Callback = std::function<void(const Decision&)>;
  void CheckAsync(std::string_view domain, std::span<const Attribute> attributes, const CheckOptions& options,
                  const Callback& callback);

  // Check, and hold what permits it grants: they are renewed and given back by themselves (penstock/permit.h). With
  // max_wait it waits in the queue of a permit limit that is full, and blocks as long.
  Acquired Acquire(std::string_view domain, std::span<const Attribute> attributes,
                   const CheckOptions& options = {});
  Acquired Acquire(std::string_view domain, std::initializer_list<Attribute> attributes,
                   const CheckOptions& options = {}) {
    return Acquire(domain, std::span(attributes.begin(), attributes.size()), options);
  }
  // Of a semaphore of the caller's own, without policy.
  Acquired Acquire(std::string_view key, const Semaphore& semaphore, const CheckOptions& options = {});

  // What is left, in every unit; changes nothing. Of one limit when it is named.
  Decision Look(std::string_view domain, std::span<const Attribute> attributes, std::string_view limit = {});
  // What an earlier check under this id really used, a unit: the difference to what it took is charged or given back.
  Decision Settle(std::string_view domain, std::span<const Attribute> attributes, std::string_view request_id,
                  std::span<const UnitCost> used);
  Decision Settle(std::string_view key, const AdHocLimit& limit, std::string_view request_id,
                  std::span<const UnitCost> used);
  // Forgets all use of the matching buckets, or of the named limit's.
  Decision Reset(std::string_view domain, std::span<const Attribute> attributes, std::string_view limit = {});
  Decision Reset(std::string_view key, const AdHocLimit& limit);

  // Reads the policy file again, or takes a new text. What was used stays used. When it is wrong the last good policy
  // stays. After the call every check is decided by the new policy.
  Expected<void> Reload();
  Expected<void> Reload(std::string_view policy_text);

  // Writes the snapshot now.
  Expected<void> SaveSnapshot();

  LimiterStats Stats() const;

 private:
  class Impl;
  friend class LimiterOpener;
  explicit Limiter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;  // null once moved from
};

}  // namespace penstock
