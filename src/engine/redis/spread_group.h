// A request whose buckets stand in several slots of a cluster. No script sees them all, so they are debited one slot
// after the other, in ascending order, and what was debited is taken back when a later one refuses (rule E4): no limit is
// ever exceeded, others may for that moment be refused too much.
//
//   partial:  kLook (all slots, dry) -> kDebit with what each unit has, again when that was taken meanwhile
//   charging: kDebit (slot by slot)  -> done, or on a refusal: undo, kJudge (the other slots, dry) -> done
//   else:     kAll (all slots at once) -> done
//
// Thread contract: one event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/redis/asker.h"
#include "engine/redis/undo_queue.h"

namespace penstock::engine::redis {

struct SpreadRequest {
  Batch& batch;
  Group& group;
  Sink& sink;
  SteadyTime deadline;
};

class SpreadGroup final : private Sink {
 public:
  static constexpr int kMaxLooks = 3;  // of a partial request that others outrun

  // `prefix` is that of all keys. `slots` has the slot of each of the group's operations. `finished` is called last, after the sink, and may destroy
  // this object. Asker and undo queue outlive it.
  SpreadGroup(Asker& asker, UndoQueue& undo, std::string_view prefix, const SpreadRequest& request,
              std::span<const int32_t> slots, std::function<void(SpreadGroup&)> finished);

  void Start();

  size_t place = 0;  // the owner's: where it keeps this one

 private:
  enum class Phase : uint8_t { kAll, kLook, kDebit, kJudge };
  // The operations of one slot, as a group of their own.
  struct Part {
    int32_t slot = 0;
    bool refunds = false;              // gives back, which cannot refuse
    bool enforced = false;             // some limit of it may refuse
    bool charged = false;              // its charges stand
    bool failed = false;               // could not be asked
    std::vector<uint32_t> operations;  // numbers within the request's group
    Batch batch;
  };

  void Decided(Batch& batch, Group& group) noexcept override;
  void MakeParts(std::span<const int32_t> slots);
  void Fill(Part& part, bool dry);
  void AskPart(size_t index, bool dry);
  void AskAll(bool dry);
  void LookedAt();
  void DebitNext();
  void Debited(Part& part);
  // Takes back what was debited; the request ends with this state.
  void GiveUp(const GroupResult& result);
  void TakeBack();
  void Refused(Part& part);
  void AllAnswered();
  // The refused request stands in a queue of one of its parts, or in none any more.
  void SettleQueues(GroupResult& result);
  void CopyOut(Part& part);
  void Finish(const GroupResult& result);
  std::span<core::Operation> OperationsOf(Part& part) {
    return part.batch.operations(part.batch.groups()[0]);
  }
  bool Refuses(Part& part) { return core::GroupOutcome(OperationsOf(part)) != Outcome::kAllowed; }

  Asker& asker_;
  UndoQueue& undo_;
  const std::string_view prefix_;
  const SpreadRequest request_;
  const std::function<void(SpreadGroup&)> finished_;

  Phase phase_ = Phase::kAll;
  std::vector<Part> parts_;     // in the order of debit
  std::vector<int64_t> costs_;  // by operation: what is debited
  size_t next_ = 0;             // kDebit: the part being asked
  size_t open_ = 0;             // parts that were asked and have not answered
  int looks_ = 0;
};

}  // namespace penstock::engine::redis
