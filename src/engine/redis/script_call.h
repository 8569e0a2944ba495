// Many groups in one script call: what is sent (EVALSHA …) and what its reply says of each group.
//
// A call is for one script. Plain requests (one finite limit, a positive cost, no option, no request id) go to the script
// of their algorithm, everything else to `group`. A plain script does nothing where a bucket was written under other
// parameters: such a group comes back as kAskGroup and is asked again by `group`.
//
// The scripts say what they found and whether they charged; every field of a verdict is then core's own, by
// core::DecideGroup on what was found. Where core's outcome is not the script's, the group is kBroken.
//
// What is needed to take a charge back stands in the command's own bytes, so that a reply can be read after its batches
// are gone (Abandon).
//
// Life: Clear, Add until it says kOtherScript or kFull, SetNotAfter, command(); after the reply Read. The command does
// not move from the first call of command() to Clear.
//
// Thread contract: one event loop's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/operation.h"
#include "engine/engine.h"
#include "engine/redis/packed_limit.h"
#include "engine/redis/script.h"
#include "resp/reply_parser.h"

namespace penstock::engine::redis {

// A charge that is to be taken back (rule E4). Owns its bytes.
struct Undo {
  std::string key;
  PackedLimit limit;
  core::Charge charge;
  bool shadow = false;
  // With a request id: the undo does nothing unless the id is still kept as this charge made it (so it may be sent
  // again), and drops the id.
  std::string id_key;            // empty: none
  EngineTime decided;            // the server's clock at the charge
  bool unless_replayed = false;  // nor if a repeat was already given the answer: then the charge stands
  Hash128 permit;                // a permit limit: whose permit; the same in all of one request
};

// One group of a batch, or the part of it whose keys are on one server.
struct CallPart {
  engine::Batch* batch = nullptr;
  engine::Group* group = nullptr;
  std::span<core::Operation* const> operations;  // of the group; their limits bound by RedisBinding
  std::span<const std::string_view> keys;        // of their buckets, in the same order
  std::string_view id_key;                       // empty: the group has no request id
  bool by_group = false;                         // ask by the script `group`, although it is plain
  // Of permit limits, in the order of the keys: what a new bucket is called for people. Empty: no such limit.
  std::span<const std::string_view> readable{};
  std::string_view marker{};  // the key of the slot's marker; empty: none of the limits is strict
  uint64_t session = 0;       // who asks: whose word it is that somebody still waits
};

// What reading a reply needs: reused from call to call.
struct CallRoom {
  std::vector<FoundRoom> found;
  std::vector<core::Operation> operations;
  std::vector<core::Limit> limits;
  std::vector<core::WindowBoundaries> edges;
};

class ScriptCall {
 public:
  static constexpr size_t kMaxGroups = 64;
  static constexpr size_t kMaxOperations = 256;
  static constexpr size_t kMaxBytes = 64 * 1024;  // more only if one group alone takes more

  enum class Added : uint8_t { kYes, kOtherScript, kFull };

  enum class Answer : uint8_t {
    kNone,  // not read yet
    kDecided,  // group.result and the operations' verdicts and charges are filled (any GroupState but kUnavailable)
    kAskGroup,  // nothing was done: ask again by the script `group`
    kLate,      // nothing was done: the server's clock was past not_after
    kFull,      // nothing was done: the store has no memory for it
    kForeign,   // nothing was done: something that is not ours is under one of its keys
    kNewer,     // nothing was done: a bucket has a layout that this build does not know
    // Nothing was done, since a limit is strict and the server does not tell which run of it this is; does not stop
    // when it is cut off from its replicas; does so too late for the limit's lease, or does not say when.
    kNoRun,
    kNoReplicas,
    kLag,
    kTooFewReplicas,  // never read: what a session makes of a grant that replicas do not have in time
    kBroken,          // script and core do not agree, or the reply made no sense: an error of ours
  };

  struct Sent {
    engine::Batch* batch = nullptr;  // null: abandoned, or an undo
    engine::Group* group = nullptr;
    uint64_t tag = 0;
    Answer answer = Answer::kNone;
    GroupState state = GroupState::kUnavailable;  // as in group.result, which an undo has not
    uint32_t dropped = 0;  // undo: charges that met a newer version, and so do not come back
    bool charged = false;  // something was charged that TakeBack can take back
    bool id_kept = false;  // under its request id
    bool undo = false;     // made by AddUndo
    uint32_t first = 0;    // its operations in operations_
    uint32_t count = 0;
    uint32_t at = 0;  // where its bytes stand in groups_
  };

  // The scripts (in the order of ScriptKind) must outlive the call.
  explicit ScriptCall(std::span<const Script> scripts = Scripts()) : scripts_(scripts) {}

  void Clear();
  // Not kYes: nothing was added. A part always fits into an empty call.
  Added Add(const CallPart& part);
  // Takes the charges of one group back: they are on one server and share its id. Same rules. Its Sent::group is null.
  Added AddUndo(std::span<const Undo> undo, uint64_t tag);

  bool empty() const { return sent_.empty(); }
  std::span<Sent> sent() { return sent_; }
  ScriptKind kind() const { return kind_; }
  const Script& script() const { return scripts_[static_cast<size_t>(kind_)]; }

  // The whole command in RESP. Nothing can be added from here on.
  std::string_view command();
  // The engine's instant after which the script does nothing. As often as needed, before or after command().
  void SetNotAfter(EngineTime not_after);
  // Likewise: as Exchange::Meet has it.
  void SetMaxLag(Micros max_lag);

  // The batch of this group is gone, or its request was answered: what a reply says of a charge becomes an Undo.
  static void Abandon(Sent& sent) {
    sent.batch = nullptr;
    sent.group = nullptr;
  }
  // Reads the reply and fills the groups that are not abandoned; `sent` says how each fared. What was charged to
  // abandoned groups is appended to `undo`. False: the reply is an error; then nothing was filled.
  bool Read(std::span<const resp::ReplyNode> nodes, std::vector<Undo>& undo);
  // After Read, of a group that is not abandoned: appends what takes back what it was charged (refunds stay).
  void TakeBack(const Sent& sent, std::vector<Undo>& undo) const;
  EngineTime now() const { return now_; }  // after Read: the server's clock
  // After Read: permits that the call counted out because their lease had run out.
  int64_t reclaimed() const { return reclaimed_; }

 private:
  friend class ReplyReader;

  struct KeyPlace {
    uint32_t at = 0;  // in keys_
    uint32_t size = 0;
  };
  struct SentLimit {
    const core::Limit* limit = nullptr;
    core::WindowBoundaries edges{};
  };
  static constexpr size_t kKeyTable =
      512;  // places, twice what kMaxOperations and an id a group need at most
  static constexpr size_t kLimitsCompared = 8;

  void Begin(ScriptKind kind);
  bool HasRoom(size_t operations, size_t bytes) const;
  uint16_t AddKey(std::string_view key);  // its number, from 1
  uint16_t AddLimit(const core::Limit& limit, const core::WindowBoundaries* edges);
  uint16_t AddPackedLimit(const PackedLimit& limit);
  std::string_view KeyAt(uint16_t number) const;
  void TakeBack(const Sent& sent, std::span<const core::Operation> operations, std::vector<Undo>& undo) const;
  void AddPlain(const CallPart& part);
  void AddToGroup(const CallPart& part);
  void AddAsk(const CallPart& part);
  void AddReadable(uint16_t key, std::string_view readable);

  const std::span<const Script> scripts_;
  ScriptKind kind_ = ScriptKind::kGroup;
  EngineTime not_after_{core::kMaxExact};
  std::vector<Sent> sent_;
  std::vector<core::Operation*> operations_;  // null in an undo; those of an abandoned group are not touched
  // What the command is made of: RESP of the keys, then the bytes of the limits and of the groups.
  std::string keys_;
  std::string limits_;
  std::string groups_;
  std::string readable_;  // names of buckets of permits
  std::vector<KeyPlace> key_places_;
  std::array<uint16_t, kKeyTable> key_table_{};  // numbers of keys by hash; 0 = free
  std::vector<SentLimit> sent_limits_;
  std::string command_;  // empty: not yet made
  size_t not_after_at_ = 0;
  uint16_t marker_ = 0;  // number of its key; 0: no limit is strict
  Micros max_lag_{};
  size_t max_lag_at_ = 0;
  EngineTime now_{};
  int64_t reclaimed_ = 0;
  CallRoom room_;
};

}  // namespace penstock::engine::redis
