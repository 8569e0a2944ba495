// What is asked about permits by their ids, over links worked by hand: which calls share a script call, what is told of a
// permit over several slots, and who is woken when.
#include "engine/redis/permit_caller.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/redis/keys.h"
#include "engine/redis/packed_limit.h"
#include "engine/redis/queue_watch.h"
#include "engine/redis/script.h"
#include "engine/redis/testing/topology_fakes.h"

namespace penstock::engine::redis {
namespace {

using core::PermitFate;
using testing::FakeLink;

class Tasks final : public Executor {
 public:
  void Post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  void Run() {
    while (!tasks_.empty()) {
      for (const auto& task : std::exchange(tasks_, {})) task();
    }
  }

 private:
  std::vector<std::function<void()>> tasks_;
};

class OneLink final : public Topology, private LinkOwner {
 public:
  ServerLink* LinkFor(int32_t) noexcept override { return away ? nullptr : &link; }
  bool has_slots() const override { return slots; }
  void ForEachLink(const std::function<void(ServerLink&)>& visit) override { visit(link); }
  std::vector<LinkInfo> Links() const override { return {}; }
  std::string_view trouble() const override { return {}; }

  bool slots = false;
  bool away = false;
  std::vector<FakeLink*> links;
  FakeLink link{testing::At("store", 1), *this, links};

 private:
  void Redirected(ServerLink&, Exchange&, const Redirect&) noexcept override {}
  void LinkChanged(ServerLink&) noexcept override {}
};

std::string Number(int64_t value) {
  std::string out(sizeof(double), 0);
  PutDouble(out.data(), value);
  return out;
}
std::string Bytes(const Hash128& id) {
  std::string out;
  AppendHash(out, id);
  return out;
}
// A bucket's name in this slot.
Hash128 InSlot(uint64_t slot) { return {slot << 50 | 1, 2}; }

class PermitCallerTest : public ::testing::Test, protected PermitSink, protected PermitWaker {
 protected:
  PermitCallerTest() {
    caller_.Start(topology_);
    watch_.SetWaker(this);
  }
  ~PermitCallerTest() override {
    watch_.Stop();
    caller_.Stop();
  }
  void Called(PermitCall& call) noexcept override { heard_.push_back(&call); }
  void Woken(const Hash128& id) noexcept override { woken_.push_back(id.low); }

  static PermitCall Release(std::initializer_list<uint64_t> slots) {
    PermitCall call;
    call.permit.id = {1, 1};
    for (const uint64_t slot : slots) call.permit.places[call.permit.size++] = {InSlot(slot), 9};
    return call;
  }
  void Call(std::span<PermitCall> calls) {
    caller_.Call(calls, clock_.Steady() + Seconds(1), *this);
    tasks_.Run();
  }
  void Answer(const std::string& letters) {
    const std::string bytes = Number(clock_.Now().us) + letters;
    topology_.link.Answer("$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n");
    tasks_.Run();
  }
  size_t Sent() const { return topology_.link.sent.size(); }
  void Advance(Micros by) {
    timer_.Advance(by);
    tasks_.Run();
  }

  ManualClock clock_{EngineTime{1'000'000'000}};
  testing::FakeTimer timer_{clock_};
  Tasks tasks_;
  Counters counters_;
  Hints hints_{"pen:"};
  PermitCaller caller_{
      {tasks_, clock_, Scripts()[static_cast<size_t>(ScriptKind::kPermitCalls)], "pen:", counters_}};
  QueueWatch watch_{{tasks_, timer_, clock_, hints_, caller_}};
  OneLink topology_;
  std::vector<const PermitCall*> heard_;
  std::vector<uint64_t> woken_;
};

TEST_F(PermitCallerTest, CallsOfATurnShareAScriptCall) {
  std::vector<PermitCall> calls(PermitCaller::kMaxCalls + 1, Release({1}));
  Call(calls);
  EXPECT_EQ(Sent(), 2u);
  Answer(std::string(PermitCaller::kMaxCalls, 'r'));
  EXPECT_EQ(heard_.size(), PermitCaller::kMaxCalls);
  Answer("u");
  EXPECT_EQ(calls[0].fate, PermitFate::kReleased);
  EXPECT_EQ(calls.back().fate, PermitFate::kUnknown);
}

TEST_F(PermitCallerTest, APermitOverSeveralSlotsIsAskedForInEachAndToldTogether) {
  topology_.slots = true;
  PermitCall call = Release({1, 2, 3});
  Call({&call, 1});
  ASSERT_EQ(Sent(), 3u);
  Answer("r");
  Answer("e");
  EXPECT_TRUE(heard_.empty());
  Answer("u");
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(call.fate, PermitFate::kExpired);
  call.verb = PermitVerb::kRenew;
  Call({&call, 1});
  for (const int64_t left : {500, 300, 400}) Answer("n" + Number(left));
  EXPECT_EQ(call.fate, PermitFate::kRenewed);
  EXPECT_EQ(call.expires_in, Micros{300}) << "the earliest";
}

TEST_F(PermitCallerTest, WhatCannotBeAskedIsUnavailableOnceAndOnlyOnce) {
  PermitCall call = Release({1});
  topology_.away = true;
  Call({&call, 1});
  EXPECT_EQ(call.fate, PermitFate::kUnavailable);
  EXPECT_EQ(call.reason, Reason::kEngineDown);
  topology_.away = false;
  Call({&call, 1});
  topology_.link.Expire();
  EXPECT_EQ(heard_.size(), 2u);
  EXPECT_EQ(call.reason, Reason::kTimeout);
  Answer("r");
  EXPECT_EQ(heard_.size(), 2u);
  for (const char* letters : {"L", "F", "X", "N", "?", "", "n", "h"}) {
    Call({&call, 1});
    Answer(letters);
    EXPECT_EQ(call.fate, PermitFate::kUnavailable) << letters;
  }
  EXPECT_EQ(heard_.size(), 10u);
  Call({&call, 1});
  topology_.link.Lose(Fate::kUnknown);
  EXPECT_EQ(heard_.size(), 11u);
  caller_.Call({&call, 1}, clock_.Steady() + Seconds(1), *this);
  caller_.Stop();
  EXPECT_EQ(call.reason, Reason::kShuttingDown);
  EXPECT_EQ(heard_.size(), 12u);
  PermitCall nowhere;
  caller_.Start(topology_);
  Call({&nowhere, 1});
  EXPECT_EQ(nowhere.fate, PermitFate::kUnknown);
}

TEST_F(PermitCallerTest, WhatMeetsASlotOnTheMoveIsAskedForOneByOne) {
  std::vector<PermitCall> calls(2, Release({1}));
  Call(calls);
  ASSERT_EQ(Sent(), 1u);
  Exchange* const shared = topology_.link.sent[0].exchange;
  topology_.link.sent.clear();
  shared->redirects = 1;
  EXPECT_TRUE(shared->Divide());
  tasks_.Run();
  ASSERT_EQ(Sent(), 2u);
  EXPECT_FALSE(topology_.link.sent[0].exchange->Divide());
  Answer("r");
  Answer("r");
  EXPECT_EQ(heard_.size(), 2u);
}

TEST_F(PermitCallerTest, AHintWakesThoseItNamesAndNobodyElse) {
  watch_.Waits({0, 1}, InSlot(1));
  watch_.Waits({0, 2}, InSlot(1));
  const std::string zeros(16, '0');
  hints_.Tell("permits " + zeros + "0000000000000002 " + zeros + "0000000000000007 x");
  tasks_.Run();
  EXPECT_EQ(woken_, std::vector<uint64_t>{2});
  hints_.Tell("permits " + zeros + "000000000000000g");
  hints_.Tell("permits ");
  watch_.Left({0, 2});
  hints_.Tell("permits " + zeros + "0000000000000002");
  tasks_.Run();
  EXPECT_EQ(woken_.size(), 1u);
}

// C66.
TEST_F(PermitCallerTest, WhereSomebodyWaitsIsLookedAtEverySecondOrAtTheNearestExpiry) {
  watch_.Waits({0, 1}, InSlot(1));
  watch_.Waits({0, 2}, InSlot(1));
  Advance(QueueWatch::kLook - Micros{1});
  EXPECT_EQ(Sent(), 0u);
  Advance({1});
  ASSERT_EQ(Sent(), 1u) << "one look for all who wait there";
  Answer("h" + Number(300'000) + std::string(1, 0));
  EXPECT_TRUE(woken_.empty());
  Advance(Millis(299));
  EXPECT_EQ(Sent(), 0u);
  Advance(Millis(1));
  ASSERT_EQ(Sent(), 1u);
  Answer("h" + Number(5'000'000) + std::string(1, 1) + Bytes({0, 1}));
  EXPECT_EQ(woken_, std::vector<uint64_t>{1});
  watch_.Left({0, 1});
  watch_.Left({0, 2});
  Advance(Seconds(5));
  EXPECT_EQ(Sent(), 0u);
  EXPECT_FALSE(hints_.wanted());
}

TEST_F(PermitCallerTest, APlaceForWhichNobodyAsksAnyMoreIsGivenUp) {
  watch_.Waits({0, 1}, InSlot(1));
  Advance(QueueWatch::kLook);
  Answer("h" + Number(5'000'000) + std::string(1, 1) + Bytes({0, 7}));
  EXPECT_TRUE(woken_.empty());
  ASSERT_EQ(Sent(), 1u);
  EXPECT_NE(topology_.link.Oldest().find('\2' + Bytes({0, 7})), std::string::npos);
  Answer("r");
}

TEST_F(PermitCallerTest, WhosePlaceMayBeGoneIsWoken) {
  watch_.Waits({0, 1}, InSlot(1));
  Advance(QueueWatch::kLook);
  Answer("u");  // there is no queue
  EXPECT_EQ(woken_.size(), 1u);
  topology_.away = true;  // so long that others take us for dead
  Advance(Seconds(4));
  EXPECT_EQ(woken_.size(), 1u);
  topology_.away = false;
  Advance(Seconds(1));
  Answer("h" + Number(5'000'000) + std::string(1, 0));
  EXPECT_EQ(woken_.size(), 2u);
  Advance(Seconds(1));
  Answer("h" + Number(5'000'000) + std::string(1, 0));
  EXPECT_EQ(woken_.size(), 2u);
}

}  // namespace
}  // namespace penstock::engine::redis
