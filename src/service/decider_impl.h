// The Decider that every protocol and the library use.
//
// A request goes: checked against its bounds, matched by the loop's policy, selected by unit, put into the batch at
// hand (Submit); decided by the engine (Flush); put together and handed to its receiver (Sink). A group that the
// engine calls stale goes round again, at most kMaxRepeats times and within the deadline of the first time, with the
// newest policy or fresh calendar edges. Where the newest policy is not new enough it waits for the next one.
//
// Thread contract: as Decider's. Construction and destruction on the loop's thread, or while it does not run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/later.h"
#include "service/ad_hoc_cache.h"
#include "service/calendar_cache.h"
#include "service/compose.h"
#include "service/decider.h"
#include "service/holder_desk_impl.h"
#include "service/metrics.h"
#include "service/permit_desk_impl.h"
#include "service/permit_ids.h"
#include "service/permit_watch.h"
#include "service/policy_store.h"
#include "service/waiting_room.h"

namespace penstock::service {

struct DeciderOptions {
  OnFull on_full = OnFull::kDeny;  // memory engine: limits with on_failure `local` when its table is full
  // Of one decision. None: the engine answers inline and needs no deadline, so Flush reads no clock.
  std::optional<Micros> timeout;
  // Told of every bucket of a policy whose permit the engine granted. Null: nobody.
  PermitWatch* watch = nullptr;
  // The loop's; ends the wait for a newer policy at the deadline. Null: nothing waits for one.
  Timer* timer = nullptr;
};

class DeciderImpl final : public Decider,
                          public PolicyReceiver,
                          private engine::Sink,
                          private engine::PermitWaker {
 public:
  static constexpr int kMaxRepeats = 4;  // of one request, because the policy or the calendar moved on
  static constexpr size_t kMaxBatches =
      1'024;  // under way at once; beyond, requests are `unavailable`, overload
  static constexpr size_t kMaxIdleBatches = 16;  // kept for reuse

  // All must outlive the decider. The executor carries repeats of groups that an engine answers later.
  DeciderImpl(const engine::Engine& engine, engine::EngineSession& session, Executor& executor,
              const Clock& clock, PolicyStore& store, LoopCounters& counters, const DeciderOptions& options);
  // Nothing may be under way: the engine's session has answered every group.
  ~DeciderImpl() override;

  void Submit(const Request& request, Receiver& receiver, uint64_t token) override;
  void Flush() override;
  void Detach(const Receiver& receiver) override;
  void Cancel(const Receiver& receiver, uint64_t token) override;
  PermitDesk& permits() override { return permits_; }
  HolderDesk& holders() override { return holders_; }

  // For engines that answer inline (no timeout): decides one request at once, without a receiver. It need not say
  // `stable`, and `into` is not used. An error is the caller's mistake, as a receiver hears it; null: decided.
  // Not while a Flush is under way.
  std::optional<Error> DecideNow(const Request& request, Decision& decision);

  // Nobody waits for a permit from now on; who does is asked one last time, and answered by what is there.
  void Drain();
  // Answers what waits for a newer policy or a permit, as unavailable; nothing waits from now on. Flushes.
  void Close();

  // A policy older than the one at hand is ignored.
  void SetPolicy(PolicyPointer policy) override;
  const PublishedPolicy& policy() const { return *policy_; }

 private:
  friend class HolderDeskImpl;

  // What a request is asked with, and what was found for it.
  struct Asked {
    AdHocCache::Entry* ad_hoc = nullptr;
    // The permit's that it brings to hold; drawn for the first limit that would grant one, and kept in its repeats.
    Hash128 permit{};
    HolderListing* listing = nullptr;  // kHolders
    Waiter* waiter = nullptr;          // asks again
  };
  // A request between Submit and its receiver.
  struct Pending {
    Receiver* receiver = nullptr;  // null: detached
    uint64_t token = 0;
    const Request* request =
        nullptr;  // the caller's (stable) or a copy in the batch; null: will not be repeated
    Decision* into = nullptr;
    Asked asked;
    int repeats = 0;
    bool counted = false;  // a check, not a look
  };
  // What came of the request that was just added.
  enum class Added : uint8_t {
    kGroup,    // the engine will be asked
    kNothing,  // no limit applies
    kWrong,    // error_ says why
  };
  // A request that is answered without the engine: the caller's mistake, or no limit applies.
  struct Immediate {
    uint32_t pending = 0;
    std::optional<Error> error;
  };
  // Invariant: its requests were matched by `policy`, which batch.policy keeps alive.
  struct Context {
    engine::Batch batch;
    std::vector<Pending> pending;
    std::vector<Immediate> immediate;
    const PublishedPolicy* policy = nullptr;
    uint32_t number = 0;                 // its place in contexts_
    uint32_t open = 0;                   // groups that the sink has not heard of, and one while it is decided
    Reason refusal = Reason::kNone;      // not to be given to the engine, and why
    std::optional<SteadyTime> deadline;  // of what is repeated
    Timer::Id timer = 0;                 // waiting_: until the deadline
    std::optional<EngineTime> estimate;  // of the engine's clock, once a limit needed it
  };

  // Whoever decides inline looks at the groups when Decide has returned.
  struct NoSink final : engine::Sink {
    void Decided(engine::Batch&, engine::Group&) noexcept override {}
  };

  void Decided(engine::Batch& batch, engine::Group& group) noexcept override;

  void Submit(const Request& request, const Asked& asked, Receiver& receiver, uint64_t token);
  Context& Open();
  Context& Acquire();
  Context& AcquireIdle();
  void Release(Context& context);
  const Request* Keep(Context& context, const Request& request);
  static size_t KeptBytes(const Request& request);
  static Request* CopyTo(std::byte* room, const Request& request);
  // These are about the last element of context.pending.
  void Add(Context& context, const Request& request, bool copy_key);
  void AddImmediate(Context& context, std::optional<Error> error);
  // The request and its views must stay as long as the batch, except that `copy_key` copies an ad hoc key.
  Added AddRequest(Context& context, const Request& request, bool copy_key, Asked& asked);
  Added AddAdHoc(Context& context, const Request& request, bool copy_key, Asked& asked);
  Added AddMatches(Context& context, const Request& request, Asked& asked);
  void AddGroup(Context& context, const Request& request, std::string_view domain, const Asked& asked);
  void AddOperation(Context& context, const core::Limit& limit, std::span<const std::string_view> key,
                    int64_t cost, uint8_t unit);
  // The request's permit limits are its group's first ones to be given to: it brings a permit along.
  void BringPermit(Context& context, const Request& request, Asked& asked);
  // More permit limits than one permit can stand for.
  bool TooManyPermits(const Request& request) const;
  // decider_wait.cc: requests whose permit is waited for.
  void Woken(const Hash128& permit_id) noexcept override;
  // What is left of the request's max_wait, for the rates and for the queue.
  Micros WaitLeft(const Request& request, const Asked& asked) const;
  // When the engine was asked. An answer's way back is not part of a wait: whoever was granted a permit counts his lease
  // from the end of the wait, and the engine from its grant.
  SteadyTime AskedAt(const Context& context) const;
  // Of a group that is queued, or whose asker has waited: answers, or lets him wait on.
  void AnswerWaiting(const Context& context, const Pending& pending, engine::Batch& batch,
                     engine::Group& group);
  Waiter* BeginWait(const Context& context, const Pending& pending);
  void Rest(Waiter& waiter, Micros ask_again_after);
  void Arm(Waiter& waiter, SteadyTime at);
  void Disarm(Waiter& waiter);
  void AskAgain(Waiter& waiter);
  void AskAllAgain();
  void EndWait(Waiter& waiter);
  // The asker has gone.
  void Forsake(Waiter& waiter);
  void ForsakeAllOf(const Receiver& receiver);
  void AnswerUnasked(const Pending& pending, std::optional<Error> error);
  void RefuseWaiting();
  // What a detached request was granted.
  void GiveBack(engine::Batch& batch, const engine::Group& group);
  // The same as Submit, for who holds a bucket.
  void SubmitListing(const Request& request, HolderListing& listing, Receiver& receiver, uint64_t token);
  Added Wrong(ErrorKind kind, std::string message);
  // No limit applies: a check passes, a settle has nothing that could have been charged.
  Added Unmatched(const Request& request);

  const policy::Domain* FindDomain(const PublishedPolicy& policy, std::string_view name);
  const policy::Domain* LookUpDomain(const PublishedPolicy& policy, std::string_view name);
  void KeepAddresses(engine::Batch& batch);
  const core::WindowBoundaries* Boundaries(Context& context, const core::Limit& limit);

  void Decide(Context& context);
  void AnswerImmediates(Context& context);
  void AnswerGroup(const Pending& pending, engine::Batch& batch, engine::Group& group, Micros waited = {});
  bool Repeat(const Context& context, const Pending& pending, engine::Batch& batch, engine::Group& group);
  // The context for what is repeated now, under that deadline; none: with what is submitted.
  Context& OpenAgain(std::optional<SteadyTime> deadline);
  // Keeps a stale request until there is a newer policy; false: it may not, or cannot, wait.
  bool Wait(const Context& context, const Pending& pending);
  Context* OpenWaiting(SteadyTime deadline);
  // The wait of these is over: matched by the newest policy, they are decided, or refused with the reason.
  void Resume(Context& context, Reason refusal);
  void ResumeAll(Reason refusal);
  void ReportStale(engine::Batch& batch, const engine::Group& group);
  // Whether to repeat a stale group at once; fetches the newest policy where that is what is stale.
  bool MayRepeat(const PublishedPolicy& used, int repeats, engine::GroupState state);
  // Of a group that is kConflict or kUnknownId.
  Error UndecidedError(const engine::Group& group);
  static Error UnknownId(std::string_view request_id);
  void NotePermits(engine::Batch& batch, const engine::Group& group);
  // Puts the decision together and counts it.
  void ComposeGroup(const LimitInfo* infos, bool counted, engine::Batch& batch, engine::Group& group,
                    Decision& decision, Micros waited = {});

  // Constant after construction.
  engine::EngineSession& session_;
  Executor& executor_;
  const Clock& clock_;
  PolicyStore& store_;
  LoopCounters& counters_;
  const DeciderOptions options_;

  // The loop's thread.
  PolicyPointer policy_;
  AdHocCache ad_hoc_;
  CalendarCache calendar_;
  policy::MatchScratch scratch_;
  std::string fingerprint_scratch_;
  std::string domain_name_;  // the last one found, in the policy of domain_generation_
  const policy::Domain* domain_ = nullptr;
  uint64_t domain_generation_ = 0;
  std::vector<std::unique_ptr<Context>> contexts_;
  Context* spare_ = nullptr;  // the one that was used last, at rest
  std::vector<Context*> idle_;
  std::vector<uint32_t> free_numbers_;  // places in contexts_ that are empty
  size_t busy_ = 0;                     // contexts that are neither idle nor gone
  std::vector<Context*> filled_;        // full, not yet decided
  Context* filling_ = nullptr;
  Context* repeating_ = nullptr;   // in filled_, open for more of its deadline
  std::vector<Context*> waiting_;  // for a newer policy; their requests are not matched yet
  bool draining_ = false;          // nobody waits for a permit any more
  bool closed_ = false;            // nothing waits any more
  bool deciding_ = false;          // inside Flush or Decided: a nested Flush only asks for another round
  bool flush_wanted_ = false;
  Context now_;  // DecideNow's own
  NoSink no_sink_;
  Decision decision_;
  Error error_;  // of the last Added::kWrong
  PermitIds permit_ids_;
  WaitingRoom waiting_room_;
  PermitDeskImpl permits_;
  HolderDeskImpl holders_;
  PermitNotes notes_;
  Later flush_later_;
};

}  // namespace penstock::service
