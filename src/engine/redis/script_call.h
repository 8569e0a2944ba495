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
  std::string id_key;  // the request id that was kept with it; empty = none
  PackedLimit limit;
  core::Charge charge;
};

// One group of a batch, or the part of it whose keys are on one server.
struct CallPart {
  engine::Batch* batch = nullptr;
  engine::Group* group = nullptr;
  std::span<core::Operation* const> operations;  // of the group; their limits bound by RedisBinding
  std::span<const std::string_view> keys;        // of their buckets, in the same order
  std::string_view id_key;                       // empty: the group has no request id
  bool by_group = false;                         // ask by the script `group`, although it is plain
  bool dry = false;                              // judge, charge nobody (beside GroupOptions::dry)
  uint64_t tag = 0;                              // the caller's own
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
    kBroken,    // script and core do not agree, or the reply made no sense: an error of ours
  };

  struct Sent {
    engine::Batch* batch = nullptr;  // null: abandoned, or an undo
    engine::Group* group = nullptr;
    uint64_t tag = 0;
    Answer answer = Answer::kNone;
    bool charged = false;           // something was charged (as far as the reply says)
    uint32_t first = 0, count = 0;  // operations of this call
    uint32_t group_at = 0;          // where it stands in groups_
  };

  ScriptCall();

  void Clear();
  // Not kYes: nothing was added. A part always fits into an empty call.
  Added Add(const CallPart& part);
  // Takes charges back: one group of operations on one server. Same rules.
  Added AddUndo(std::span<const Undo> undo);

  bool empty() const { return sent_.empty(); }
  std::span<Sent> sent() { return sent_; }
  const Script& script() const { return *script_; }

  // The whole command in RESP. Nothing can be added from here on.
  std::string_view command();
  // The engine's instant after which the script does nothing. As often as needed, before or after command().
  void SetNotAfter(EngineTime not_after);

  // The batch of this group is gone, or its request was answered: what a reply says of a charge becomes an Undo.
  static void Abandon(Sent& sent) { sent.batch = nullptr, sent.group = nullptr; }
  // Reads the reply and fills the groups that are not abandoned; `sent` says how each fared. What was charged to
  // abandoned groups is appended to `undo`. False: no answer to this command (an error, or bytes that make no sense):
  // then nothing was filled.
  bool Read(std::span<const resp::ReplyNode> nodes, std::vector<Undo>& undo);
  EngineTime now() const { return now_; }  // after Read: the server's clock
};

}  // namespace penstock::engine::redis
