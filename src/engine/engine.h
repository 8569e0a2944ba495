// The Engine contract: the one virtual seam of Penstock. An engine is where buckets live and whose clock counts.
//
// A batch holds groups, one a request; a group holds operations, one a limit. The caller fills a batch, hands it to
// Decide, and hears of each group exactly once through its sink, on the same event loop: before Decide returns
// (memory), or when that group is known (a store over the network; a permit that waits). So a slow shard delays
// nobody else.
//
// Thread contract: Engine is for any thread; an EngineSession and its batches belong to one event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dialer.h"
#include "base/executor.h"
#include "base/result.h"
#include "core/group.h"
#include "engine/holder_list.h"
#include "engine/limit_registry.h"
#include "engine/permit_call.h"
#include "penstock/decision.h"

namespace penstock::engine {

enum class Mode : uint8_t {
  kCheck,
  // The group's request_id names an earlier check of the same domain; each operation's cost is what was really
  // used, and the difference to what was taken is charged or given back.
  kSettle,
  // Each operation's bucket is dropped: no use is left.
  kReset,
  // Each operation brings an earlier charge (Operation::charge) and its cost is the difference: core::AdjustCharge. The
  // undo of a charge (cost = -charge.cost), and what was used without the engine reported to it (cost > 0).
  kAdjust,
  // One operation, of a permit limit: who holds its bucket is put into Group::listing. Changes nothing.
  kHolders,
};

enum class GroupState : uint8_t {
  kDecided,      // the operations' verdicts hold
  kStale,        // the engine holds a newer version of one of the limits: reload the policy and repeat
  kStaleClock,   // calendar boundaries do not hold at `now`: recompute them and repeat
  kConflict,     // another request was made under this request id
  kUnknownId,    // settle: no such id is kept
  kUnavailable,  // could not be asked; `reason` says why
};

struct GroupResult {
  GroupState state = GroupState::kUnavailable;
  Reason reason = Reason::kNone;
  bool replayed = false;
  bool replayable = true;
  bool degraded = false;  // decided without the engine, by what stands in for it
  // kUnavailable: it may have been charged all the same, its reply being lost or late.
  bool may_have_run = false;
  EngineTime now{};  // the engine's clock at the decision
  // Of a permit that was granted (a charge of a permit limit is not 0), now or, replayed, then: it is the ask's else.
  Hash128 permit_id{};
  // The asker stands in a queue (Verdict::queued says whose): he is to ask again with the same permit id when he is
  // woken (PermitWaker), and after that time at the latest, since a wake-up may be lost and an expiry wakes nobody.
  bool queued = false;
  Micros ask_again_after{};
};

struct Group {
  // In.
  Mode mode = Mode::kCheck;
  uint32_t first = 0;  // operations [first, first + count) of the batch
  uint32_t count = 0;
  core::GroupOptions options;
  std::string_view domain;
  std::string_view request_id;  // empty = none
  uint64_t fingerprint = 0;  // of the request as it was asked: tells a repeat from another request (rule E10)
  Micros keep_id{60'000'000};  // how long the id is kept
  // Kept although nothing is charged here, since another part of the request is: a settle finds its place then.
  bool keep_id_anyway = false;
  HolderList* listing = nullptr;  // kHolders: lives until the group is decided
  uint64_t token = 0;             // the caller's own

  // Out.
  GroupResult result;
};

// Groups and operations of one call, with the bytes their views point into. Reused: Clear keeps the capacity.
//
// An operation's verdict, edit and charge keep what an earlier call left in them until the engine has decided its
// group, except that the outcome begins as kUnavailable and nothing is written or charged: 300 bytes a request are not
// cleared for nothing.
//
// Invariant: every string_view and span of its groups and operations points into the arena of this batch, into what the
// caller keeps alive (AddOperationInPlace), or into the policy that `policy` keeps alive.
class Batch {
 public:
  static constexpr size_t kMaxGroups = 1'024;

  // Adds a group; its operations follow by AddOperation. References end with the next AddGroup.
  Group& AddGroup() {
    Group& group = groups_.emplace_back();
    group.first = static_cast<uint32_t>(operation_count_);
    return group;
  }
  // Adds an operation to the last group. The key's bytes are copied. References end with the next AddOperation.
  core::Operation& AddOperation(const core::Limit& limit, std::span<const std::string_view> key) {
    size_t bytes = key.size() * sizeof(std::string_view);
    for (const std::string_view part : key) bytes += part.size();
    auto* const parts = reinterpret_cast<std::string_view*>(Allocate(bytes));
    auto* out = reinterpret_cast<char*>(parts + key.size());
    for (size_t i = 0; i < key.size(); ++i) {
      if (!key[i].empty()) std::memcpy(out, key[i].data(), key[i].size());
      new (&parts[i]) std::string_view(out, key[i].size());
      out += key[i].size();
    }
    return NewOperation(limit, {parts, key.size()});
  }
  // The same, but the key's bytes are not copied: they must outlive the batch's content (they stand in the batch
  // already, or the caller waits until its last group is done).
  core::Operation& AddOperationInPlace(const core::Limit& limit, std::span<const std::string_view> key) {
    auto* const parts = reinterpret_cast<std::string_view*>(Allocate(key.size() * sizeof(std::string_view)));
    for (size_t i = 0; i < key.size(); ++i) new (&parts[i]) std::string_view(key[i]);
    return NewOperation(limit, {parts, key.size()});
  }
  // Room for plain data that lives as long as the batch's content, aligned for string_views.
  std::byte* Allocate(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) & ~(kAlignment - 1);
    if (static_cast<size_t>(end_ - next_) < rounded) [[unlikely]]
      NextChunk(rounded);
    std::byte* const out = next_;
    next_ += rounded;
    return out;
  }
  // A copy of the bytes that lives as long as the batch's content.
  std::string_view Copy(std::string_view bytes) {
    if (bytes.empty()) return {};
    auto* const out = reinterpret_cast<char*>(Allocate(bytes.size()));
    std::memcpy(out, bytes.data(), bytes.size());
    return {out, bytes.size()};
  }

  std::span<Group> groups() { return groups_; }
  std::span<core::Operation> operations() { return {operations_.data(), operation_count_}; }
  std::span<core::Operation> operations(const Group& group) {
    return {operations_.data() + group.first, group.count};
  }
  void Clear() {
    groups_.clear();
    operation_count_ = 0;
    if (chunks_.size() > kKeptChunks) [[unlikely]]
      DropChunks();
    current_ = chunks_.empty() ? 0 : 1;
    next_ = chunks_.empty() ? nullptr : chunks_[0].bytes.get();
    end_ = chunks_.empty() ? nullptr : next_ + chunks_[0].capacity;
    if (policy != nullptr) policy.reset();
  }

  std::shared_ptr<const void> policy;  // held until the last group is done

 private:
  static constexpr size_t kChunkBytes = 16 * 1024;
  // Big keys are rare: what they took is given back, the ordinary chunks stay for the next call.
  static constexpr size_t kKeptChunks = 4;
  static constexpr size_t kAlignment = alignof(std::string_view);
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity = 0;
  };
  // Makes a chunk with that much room the current one.
  void NextChunk(size_t bytes);
  void DropChunks();

  core::Operation& NewOperation(const core::Limit& limit, std::span<const std::string_view> key) {
    if (operation_count_ == operations_.size()) [[unlikely]]
      operations_.emplace_back();
    core::Operation& operation = operations_[operation_count_++];
    ++groups_.back().count;
    operation.limit = &limit;
    operation.key = key;
    operation.cost = 0;
    operation.unit = 0;
    operation.boundaries = nullptr;
    operation.named = false;
    operation.bucket.present = false;
    operation.verdict.outcome = Outcome::kUnavailable;
    operation.edit.write = false;
    operation.charge.cost = 0;
    operation.skipped = false;
    return operation;
  }

  std::vector<Group> groups_;
  std::vector<core::Operation>
      operations_;  // the first operation_count_ are in use, the others wait for the next call
  size_t operation_count_ = 0;
  // The arena never moves what it handed out. [next_, end_) is free in chunk current_ - 1; the chunks from current_ on
  // are free.
  std::vector<Chunk> chunks_;
  size_t current_ = 0;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

class Sink {
 public:
  virtual ~Sink() = default;
  // The group's result and its operations' verdicts are there. Must not throw.
  virtual void Decided(Batch& batch, Group& group) noexcept = 0;
};

class EngineSession {
 public:
  virtual ~EngineSession() = default;

  // Decides every group. Reads the engine's clock once. Never blocks, never throws; after the deadline a group is
  // answered kUnavailable. The batch must live, unchanged, until its last group was handed to the sink.
  virtual void Decide(Batch& batch, SteadyTime deadline, Sink& sink) noexcept = 0;

  // Releases, renews, or takes out of a queue: each call by itself, in any order, each answered exactly once. The calls
  // must live, unchanged, until the sink has heard of them; after the deadline a call is answered kUnavailable.
  // An engine that cannot hold permits answers kUnavailable.
  virtual void CallPermits(std::span<PermitCall> calls, SteadyTime deadline, PermitSink& sink) noexcept;
  // Who hears, on this loop and never inside another call of the session, that a permit which was asked for here and
  // stands in a queue may be granted now. Null: nobody. He outlives the session, or says null first.
  virtual void SetWaker(PermitWaker* waker) noexcept { (void)waker; }

  // A hint: this operation of a batch, whose limit and key are set, will be decided soon. What takes time (memory: the
  // bucket's line, far from the processor) may be begun, while the caller still fills the batch.
  virtual void Expect(core::Operation& operation) noexcept { (void)operation; }

  // Answers every group that is under way, as kUnavailable, and takes no more: what comes later is answered inside
  // Decide. Before whoever hears of groups goes; not from inside Decided.
  virtual void Close() noexcept {}

  // An estimate of the engine's time, for calendar boundaries.
  virtual EngineTime EstimateNow() const = 0;

  // Which limits there are: versions, run-time changes. The same for all sessions of an engine's nodes.
  virtual LimitRegistry& registry() = 0;
  // Makes limits, whose versions are set, ready for Decide by their bindings; inline, never asks a store. The limits are
  // not yet shared with other threads.
  virtual Result<void> Bind(std::span<core::Limit* const> limits) = 0;
  // Both at once, for limits that stand in no policy (tests, benchmarks): each gets its version and its binding. The
  // session and the limits must live until `done`, which comes on this loop, inline where the engine can.
  virtual void Register(std::span<core::Limit* const> limits, std::function<void(Result<void>)> done);
  // Bind for one ad hoc limit: version 0. False: the engine had no place for its
  // parameters; it may be decided all the same and is answered kUnavailable, but should be bound anew the next time.
  virtual bool BindAdHoc(core::Limit& limit) = 0;
  // What Batch::policy will be from now on, for engines that go on with older limits by themselves.
  virtual void PolicyChanged(const std::shared_ptr<const void>& policy) { (void)policy; }
};

struct EngineStats {
  uint64_t keys = 0;
  uint64_t max_keys = 0;
  uint64_t evictions = 0;     // keys dropped because they were the same as absent
  uint64_t refused_full = 0;  // decisions refused because a table (of buckets, of parameters) was full
  uint64_t saturated = 0;
  uint64_t request_ids = 0;
  uint64_t stale = 0;
  uint64_t reclaimed_permits = 0;  // counted out because their lease had run out (a store: by this process)
};

// What a session needs of its event loop. All outlive the session.
struct LoopParts {
  Executor& executor;
  Timer& timer;
  Dialer* dialer = nullptr;  // null where the engine is in this process
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;  // "memory", "redis", …
  // A session for the event loop that the parts belong to.
  virtual std::unique_ptr<EngineSession> OpenLoop(const LoopParts& parts) = 0;
  // Whether this engine can hold such a limit; the policy reader asks at load and names file and line.
  virtual Result<void> CanHold(const core::LimitParams& params) const = 0;
  virtual bool CanHoldPermits() const = 0;
  virtual bool ready() const = 0;
  virtual EngineStats stats() const = 0;
};

}  // namespace penstock::engine
