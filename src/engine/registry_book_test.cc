#include "engine/registry_book.h"

#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

constexpr EngineTime kNow{1'800'000'000'000'000};

Claim Load(std::string definition, int64_t revision = 0, std::string name = "l") {
  Claim claim;
  claim.domain = "d";
  claim.name = std::move(name);
  claim.definition = std::move(definition);
  claim.revision = revision;
  return claim;
}

Claim Held(std::string definition, core::Version version, bool put = false, int64_t revision = 0) {
  Claim claim = Load(std::move(definition), revision);
  claim.held = version;
  claim.put = put;
  return claim;
}

class RegistryBookTest : public ::testing::Test {
 protected:
  RegisteredLimit Register(const Claim& claim) {
    const Result<std::vector<RegisteredLimit>> out = book_.Register(std::span(&claim, 1), now_);
    EXPECT_TRUE(out) << out.error().message;
    return out ? out->front() : RegisteredLimit{};
  }
  RegisteredLimit Put(std::string definition) {
    const Result<RegisteredLimit> out = book_.Put("d", "l", definition, std::nullopt, now_);
    EXPECT_TRUE(out);
    return out ? *out : RegisteredLimit{};
  }
  RegisteredLimit Remove() {
    const Result<RegisteredLimit> out = book_.Remove("d", "l", std::nullopt, now_);
    EXPECT_TRUE(out);
    return out ? *out : RegisteredLimit{};
  }
  RegisteredLimit InForce() {
    for (RegisteredLimit& limit : book_.Changes(0).limits) {
      if (limit.name == "l") return limit;
    }
    return {};
  }

  RegistryBook book_;
  EngineTime now_ = kNow;
};

TEST_F(RegistryBookTest, EqualContentKeepsItsVersionAndOtherGetsANewerOne) {
  const RegisteredLimit first = Register(Load("a"));
  EXPECT_EQ(first.version, kNow.us);
  EXPECT_EQ(Register(Load("a")).version, first.version);
  EXPECT_EQ(Register(Load("b")).version, first.version + 1) << "the clock stood still";
  now_ = now_ + Seconds(1);
  EXPECT_EQ(Register(Load("a")).version, now_.us);
  now_ = now_ - Seconds(10);
  EXPECT_EQ(Register(Load("c")).version, (kNow + Seconds(1)).us + 1) << "the clock went back";
}

TEST_F(RegistryBookTest, WithoutRevisionsTheNewestLoadWins) {
  Register(Load("a"));
  EXPECT_EQ(Register(Load("b")).definition, "b");
  EXPECT_EQ(Register(Load("a")).definition, "a");
}

TEST_F(RegistryBookTest, ALowerRevisionFollowsAndAHigherOneWins) {
  const RegisteredLimit seven = Register(Load("seven", 7));
  for (const int64_t lower : {0, 6}) {
    const RegisteredLimit follows = Register(Load("lower", lower));
    EXPECT_EQ(follows.definition, "seven");
    EXPECT_EQ(follows.version, seven.version);
    EXPECT_EQ(follows.revision, 7);
  }
  const RegisteredLimit eight = Register(Load("eight", 8));
  EXPECT_EQ(eight.definition, "eight");
  EXPECT_GT(eight.version, seven.version);
}

TEST_F(RegistryBookTest, EqualContentKeepsTheHighestRevision) {
  Register(Load("a", 7));
  EXPECT_EQ(Register(Load("a", 5)).revision, 7);
  EXPECT_EQ(Register(Load("a", 9)).revision, 9);
  EXPECT_EQ(Register(Load("b", 8)).definition, "a");
}

TEST_F(RegistryBookTest, TheSameRevisionWithOtherContentIsRefusedAndNothingOfItIsTaken) {
  Register(Load("a", 7));
  const Claim claims[] = {Load("new", 7, "other"), Load("b", 7)};
  const Result<std::vector<RegisteredLimit>> refused = book_.Register(claims, now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_NE(refused.error().message.find("d/l: revision 7"), std::string::npos) << refused.error().message;
  EXPECT_EQ(book_.entries().size(), 1u);
}

TEST_F(RegistryBookTest, APutBeatsFilesUntilItIsRemoved) {
  const RegisteredLimit file = Register(Load("file", 1));
  const RegisteredLimit put = Put("put");
  EXPECT_TRUE(put.put);
  EXPECT_GT(put.version, file.version);
  EXPECT_EQ(Put("put").version, put.version);
  const RegisteredLimit later = Register(Load("file 2", 2));
  EXPECT_EQ(later.definition, "put");
  EXPECT_EQ(later.version, put.version);
  const RegisteredLimit removed = Remove();
  EXPECT_EQ(removed.definition, "file 2");
  EXPECT_EQ(removed.revision, 2);
  EXPECT_FALSE(removed.put);
  EXPECT_GT(removed.version, put.version);
  EXPECT_EQ(book_.Remove("d", "l", std::nullopt, now_).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(Register(Load("file 2", 2)).version, removed.version);
}

TEST_F(RegistryBookTest, APutThatNoFileHadLeavesWordOfItsRemoval) {
  const RegisteredLimit put = Put("put");
  const RegisteredLimit removed = Remove();
  EXPECT_EQ(removed.definition, "");
  EXPECT_GT(removed.version, put.version);
  EXPECT_EQ(book_.Changes(put.version).limits.size(), 1u);
  const RegisteredLimit loaded = Register(Load("file"));
  EXPECT_EQ(loaded.definition, "file");
  EXPECT_GT(loaded.version, removed.version);
}

TEST_F(RegistryBookTest, AVersionCanBeAskedFor) {
  const auto put = [this](core::Version if_match) { return book_.Put("d", "l", "new", if_match, now_); };
  EXPECT_EQ(put(5).error().kind, ErrorKind::kConflict);
  const core::Version version = Register(Load("a")).version;
  EXPECT_EQ(put(version - 1).error().kind, ErrorKind::kConflict);
  const Result<RegisteredLimit> done = put(version);
  ASSERT_TRUE(done);
  EXPECT_EQ(book_.Remove("d", "l", version, now_).error().kind, ErrorKind::kConflict);
  EXPECT_TRUE(book_.Remove("d", "l", done->version, now_));
}

// C5e: what nodes hold comes back under its own version, and what is newer stays.
TEST_F(RegistryBookTest, WhatWasLostComesBackUnderItsVersion) {
  EXPECT_EQ(Register(Held("mine", 8)).version, 8);
  EXPECT_EQ(Register(Held("older", 7)).definition, "mine");
  EXPECT_EQ(Register(Held("newer", 9, true)).version, 9);
  EXPECT_TRUE(InForce().put);
  const RegisteredLimit removed = Register(Held("", 10));
  EXPECT_EQ(removed.version, 10);
  EXPECT_EQ(removed.definition, "");
  now_ = {3};  // a clock far behind
  EXPECT_EQ(Register(Load("file")).version, 11);
}

TEST_F(RegistryBookTest, AVersionThatBucketsRememberIsPassed) {
  Register(Load("a"));
  Claim claim = Load("a");
  claim.above = kNow.us + 100;
  EXPECT_EQ(Register(claim).version, kNow.us + 101);
  EXPECT_EQ(Register(claim).version, kNow.us + 101);
}

TEST_F(RegistryBookTest, TheMarkTellsEveryChange) {
  EXPECT_EQ(book_.mark(), RegistryMark{});
  Register(Load("a"));
  RegistryMark mark = book_.mark();
  EXPECT_EQ(mark.born, kNow.us);
  EXPECT_EQ(mark.sum, kNow.us);
  const auto changed = [&] {
    const RegistryMark before = std::exchange(mark, book_.mark());
    return !(before == mark) && mark.last > before.last && mark.born == before.born;
  };
  Register(Load("a"));
  EXPECT_FALSE(changed());
  Register(Load("b"));
  EXPECT_TRUE(changed());
  Put("c");
  EXPECT_TRUE(changed());
  Remove();
  EXPECT_TRUE(changed());
  Register(Load("x", 0, "other"));
  EXPECT_TRUE(changed());
  int64_t sum = 0;
  for (const auto& [key, entry] : book_.entries()) sum = (sum + entry.version) % kRegistrySumModulus;
  EXPECT_EQ(sum, mark.sum);
  EXPECT_EQ(book_.Changes(mark.last - 1).limits.size(), 1u);
}

}  // namespace
}  // namespace penstock::engine
