// Plays traffic (traffic.h) to a real Redis by the script calls that the engine makes, and judges every answer by the
// model (core/testing/model.h), field by field.
//
// A player makes one script call a round; many players share a connection and send their rounds together (PlayAll).
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/testing/model.h"
#include "engine/redis/script_call.h"
#include "redis/redis_client.h"
#include "redis/traffic.h"

namespace penstock::fixtures {

// What the traffic reached: equality says little about what never happened.
struct TrafficTally {
  int64_t steps = 0, calls = 0, asked_again = 0, together = 0;
  int64_t allowed = 0, denied = 0, never = 0, waited = 0, saturated = 0, changed = 0;
  int64_t kinds[TrafficStep::kKinds] = {};  // played, not passed over
};

struct PlayOptions {
  std::span<const engine::redis::Script> scripts;  // loaded into the server, in the order of ScriptKind
  bool own_clock =
      true;  // the scripts stand behind ScriptClock; else the model is fed the clock that they returned
  int64_t start_us = 0;  // not own_clock: about what the server's clock says
  int64_t favour = 0;    // the model's limits have so much more: for a test of the test
};

class TrafficPlayer {
 public:
  // What is put under keys without being asked of the scripts comes by `others`.
  TrafficPlayer(const Traffic& traffic, const PlayOptions& options, RedisClient& others, TrafficTally* tally);
  ~TrafficPlayer();

  // Appends the next call's commands; what must stand before them does. False: there is nothing left to ask.
  bool Ask(std::string& bytes);
  // Takes their replies.
  void Hear(RedisClient& client);
  // The first difference; empty while there is none. Then nothing more is asked.
  const std::string& difference() const { return difference_; }

 private:
  struct LimitState;
  struct IdRecord;
  struct Charged;
  struct Group;

  // Making calls (traffic_player.cc).
  void GatherCall();
  bool Prepare(const TrafficStep& step);
  bool ChooseTarget(Group& group);
  void NewId(Group& group);
  bool ChooseId(Group& group);
  bool ChooseCharge(Group& group);
  bool ChooseOldVersion(Group& group);
  bool ChooseWrongEdges(Group& group);
  bool IsPending(const Charged& charged) const;
  bool IsOutsideEdges(const Charged& charged) const;
  void Fill(Group& group);
  void MoveClock(const TrafficStep& step);
  void Change(int limit);
  bool AddToCall(Group& group);
  void Spoil(const Group& group);

  // Judging answers (traffic_judge.cc): what is wrong, or nothing.
  std::string Judge(Group& group, const engine::redis::ScriptCall::Sent& sent);
  std::string JudgeCheck(Group& group, const engine::redis::ScriptCall::Sent& sent, EngineTime now);
  std::string JudgeNamed(Group& group, const engine::redis::ScriptCall::Sent& sent, EngineTime now);
  std::string JudgeRepeat(Group& group);
  std::string JudgeSettle(Group& group, EngineTime now);
  std::string JudgeAdjust(Group& group, EngineTime now);
  std::string JudgeUndo(Group& group, EngineTime now);
  std::string JudgeReset(Group& group, EngineTime now);
  std::string Decide(Group& group, EngineTime now, std::vector<core::testing::ModelVerdict>& answers,
                     Charged& charged);
  std::string Compare(const Group& group, size_t i, const core::testing::ModelVerdict& expected,
                      EngineTime now);
  std::string CompareCharge(const Group& group, size_t i, const core::testing::ModelCharge& expected) const;
  std::string Expect(Group& group, engine::GroupState state) const;
  void ChangeModels(const Group& group);
  void NoteIdle(const Group& group);
  void Forget(int limit);
  IdRecord* Record(const Group& group, EngineTime now);

  const Traffic& traffic_;
  const PlayOptions options_;
  RedisClient& others_;
  TrafficTally* const tally_;
  const int64_t start_us_;
  int64_t now_us_;
  int64_t earliest_us_ = 1'000'000'000'000;  // the clock does not go back further
  Micros retry_, reset_;                     // the last answer's
  std::vector<int64_t> edges_;
  std::vector<std::unique_ptr<LimitState>> limits_;
  std::deque<std::shared_ptr<IdRecord>> ids_;
  std::deque<Charged> charges_;  // of requests that may be undone or adjusted

  size_t next_ = 0;                            // step
  std::unique_ptr<Group> waiting_;             // prepared, and not in the call at hand
  std::vector<std::unique_ptr<Group>> again_;  // to be asked by the script that can do everything
  std::vector<std::unique_ptr<Group>> asked_;  // in the call at hand
  std::vector<std::string> spoiled_;           // keys that hold what was put there to spoil them
  engine::redis::ScriptCall call_;
  std::string difference_;
};

// Plays them all side by side over one connection, `node`, in a store that is emptied before. `others` may do
// everything. The first difference with the number of its traffic.
struct Difference {
  size_t number = 0;
  std::string text;
};
std::optional<Difference> PlayAll(std::span<const Traffic> traffic, const PlayOptions& options,
                                  RedisClient& node, RedisClient& others, TrafficTally* tally);

// Loads scripts into the server.
void LoadScripts(RedisClient& client, std::span<const engine::redis::Script> scripts);

}  // namespace penstock::fixtures
