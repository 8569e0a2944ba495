// What plays permit_traffic.h: asks as a node does, and has every answer judged. Included by its sources only.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/permit_call.h"
#include "engine/redis/script_call.h"
#include "redis/permit_judge.h"
#include "redis/permit_traffic.h"

namespace penstock::fixtures {

class PermitPlayer {
 public:
  PermitPlayer(const PermitTraffic& traffic, const PermitStage& stage, PermitTally* tally);
  std::string Play();  // what differs, or nothing

 private:
  using Kind = PermitStep::Kind;
  static constexpr size_t kLimits = 3;
  static constexpr size_t kRate = 2;  // its place

  // A request id, and the answer that is kept under it.
  struct Record {
    std::string id;
    const PermitStep* step = nullptr;
    std::vector<size_t> places;
    bool kept = false;
    bool replayed = false;
    EngineTime decided;
    EngineTime expires;
    std::vector<core::Verdict> verdicts;
    std::vector<core::Charge> charges;
    Hash128 permit;
    Hash128 asker;  // whose request was decided
  };
  // A group that is asked.
  struct Asked {
    const PermitStep* step = nullptr;
    Kind kind = Kind::kAcquire;
    std::vector<size_t> places;  // of its limits
    bool word = true;            // it brings something to hold
    bool again = false;          // the plain script sent it on
    uint64_t session = 0;
    std::string holder;
    core::PermitAsk ask;
    core::Charge charge;  // that is changed
    engine::Batch batch;
    engine::HolderList list;
    std::vector<core::Operation*> operations;
    std::vector<std::string_view> keys;
    std::vector<std::string_view> readable;
    std::string id_key;
    std::shared_ptr<Record> record;
  };
  // A permit that was asked for: held, waited for, or neither any more.
  struct Permit {
    Hash128 id;
    uint64_t session = 0;
    const PermitStep* step = nullptr;
    std::string holder;
    bool waits = false;
    std::vector<size_t> places;
    std::vector<core::Charge> charges;
    std::vector<engine::redis::Undo> undo;
    std::shared_ptr<Record> record;
  };

  // Of one permit in one bucket.
  struct OneCall {
    size_t place = 0;
    char verb = 0;
    Hash128 id;
    uint64_t session = 0;
    Micros lease;
  };

  void MoveClock(const PermitStep& step);
  void Change(const PermitStep& step);
  std::unique_ptr<Asked> Prepare(const PermitStep& step);
  bool ChooseAskAgain(Asked& asked);
  bool ChooseRecord(Asked& asked);
  bool ChooseReport(Asked& asked);
  bool ChooseAdjust(Asked& asked);
  void Fill(Asked& asked);
  bool Add(Asked& asked, bool by_group);
  size_t Gather(size_t from);
  void Send();
  void Fail(const std::string& what);

  // permit_player_calls.cc
  void Undo(const PermitStep& step);
  void Call(const PermitStep& step);
  std::string ChooseCalls(const PermitStep& step);
  void AddCall(const Permit& permit, char verb, const PermitStep& step, std::string& bytes);
  void JudgeLook(const OneCall& call, std::string_view& text);
  void JudgeCall(const OneCall& call, std::string_view& text);

  // permit_player_judge.cc
  void JudgeAnswer(Asked& asked, const engine::redis::ScriptCall::Sent& sent);
  void JudgeCheck(Asked& asked, const engine::redis::ScriptCall::Sent& sent);
  void JudgeReplay(Asked& asked, Record& record);
  void JudgeAdjust(Asked& asked);
  void JudgeList(Asked& asked);
  void JudgeReset(Asked& asked);
  void Remember(Asked& asked, const engine::redis::ScriptCall::Sent& sent, bool queued);
  void Compare(const Asked& asked, size_t i, const core::Operation& judged);
  std::vector<core::Operation> Found(Asked& asked);

  const PermitTraffic& traffic_;
  const PermitStage& stage_;
  PermitTally* const tally_;
  std::array<JudgedBucket, kLimits> buckets_;
  std::array<std::string, kLimits> keys_;
  EngineTime now_{1'800'057'600'000'000};
  uint64_t drawn_ = 0;
  std::deque<Permit> permits_;
  std::deque<std::shared_ptr<Record>> records_;
  engine::redis::ScriptCall call_;
  std::vector<std::unique_ptr<Asked>> asked_;
  std::vector<OneCall> calls_;
  const PermitStep* step_ = nullptr;
  std::string difference_;
};

}  // namespace penstock::fixtures
