// Reads the reply of a script call (script_call.h) into its groups. A reply is one string: the server's clock, then for
// each group a letter and what belongs to it (lua/README.md).
//
// Thread contract: one event loop's thread; lives while one reply is read.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/redis/script_call.h"

namespace penstock::engine::redis {

class ReplyReader {
 public:
  ReplyReader(ScriptCall& call, std::string_view reply, std::vector<Undo>& undo)
      : call_(call), room_(call.room_), reply_(reply), undo_(undo) {}

  // From where the reply is cut short, or says what no script says, groups are kBroken.
  void ReadAll();

 private:
  using Sent = ScriptCall::Sent;
  using Answer = ScriptCall::Answer;
  // A group as it was asked.
  struct Asked {
    Mode mode = Mode::kCheck;
    core::GroupOptions options;
    uint16_t id = 0;  // number of the id's key
    bool plain = false;
    bool asks = false;  // `ask` is what it brought to hold
    core::PermitAsk ask;
    size_t head = 0;  // where its operations begin
    size_t each = 0;  // bytes of one of them
  };

  Asked AskedOf(const Sent& sent) const;
  // These are false where the reply makes no sense.
  bool ReadGroup(Sent& sent);
  bool ReadDecided(Sent& sent, const Asked& asked, char letter);
  bool ReadChanged(Sent& sent, const Asked& asked);
  bool ReadReplay(Sent& sent, const Asked& asked);
  bool ReadHolders(Sent& sent, const Asked& asked);
  bool ReadUnguarded(Sent& sent);
  bool DecideAgain(std::string_view first_answer, size_t count, Hash128& permit);
  void Reset(Sent& sent, const Asked& asked);

  // The operations of a group, side by side: the batch's own where they are, else copies.
  std::span<core::Operation> Borrow(const Sent& sent, const Asked& asked);
  void GiveBack(const Sent& sent, std::span<const core::Operation> operations);
  void Refuse(Sent& sent, Answer answer, GroupState state, Reason reason);
  void Decided(Sent& sent, GroupState state);
  std::string_view Take(size_t bytes);

  ScriptCall& call_;
  CallRoom& room_;
  std::string_view reply_;  // what is not read yet
  std::vector<Undo>& undo_;
};

}  // namespace penstock::engine::redis
