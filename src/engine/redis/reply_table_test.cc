#include "engine/redis/reply_table.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::engine::redis {
namespace {

TEST(ReplyTable, EachErrorHasItsAction) {
  const struct {
    std::string_view error;
    ReplyAction action;
  } cases[] = {
      {"NOSCRIPT No matching script. Please use EVAL.", ReplyAction::kLoadScript},
      {"MOVED 3999 127.0.0.1:6381", ReplyAction::kRedirect},
      {"ASK 3999 127.0.0.1:6381", ReplyAction::kRedirect},
      {"TRYAGAIN Multiple keys request during rehashing of slot", ReplyAction::kRedirect},
      {"CLUSTERDOWN The cluster is down", ReplyAction::kRedirect},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
       ReplyAction::kRedirect},
      {"READONLY You can't write against a read only replica.", ReplyAction::kRedirect},
      {"READONLY You can't write against a read only replica. script: 1f8f, on @user_script:1.",
       ReplyAction::kRedirect},
      {"ERR Error running script (call to f_1f8f): @user_script:3: @user_script: 3: -READONLY You can't "
       "write "
       "against a read only replica.",
       ReplyAction::kRedirect},
      {"LOADING Redis is loading the dataset in memory", ReplyAction::kBackOff},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
       ReplyAction::kBackOff},
      {"BUSYKEY Target key name already exists.", ReplyAction::kCaller},
      {"ERR max number of clients reached", ReplyAction::kBackOff},
      {"NOREPLICAS Not enough good replicas to write. script: 1f8f, on @user_script:1.",
       ReplyAction::kRefuse},
      {"OOM command not allowed when used memory > 'maxmemory'.", ReplyAction::kRefuse},
      {"ERR Error running script (call to f_1f8f): @user_script:1: -OOM command not allowed when used memory "
       "> "
       "'maxmemory'.",
       ReplyAction::kRefuse},
      {"MISCONF Redis is configured to save RDB snapshots", ReplyAction::kRefuse},
      {"NOPERM this user has no permissions to run the 'evalsha' command", ReplyAction::kRefuse},
      {"NOAUTH Authentication required.", ReplyAction::kRefuse},
      {"WRONGPASS invalid username-password pair or user is disabled.", ReplyAction::kRefuse},
      {"DENIED Redis is running in protected mode", ReplyAction::kRefuse},
      {"NOGOODSLAVE No suitable replica to promote", ReplyAction::kRefuse},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", ReplyAction::kCaller},
      {"CROSSSLOT Keys in request don't hash to the same slot", ReplyAction::kCaller},
      {"ERR something else", ReplyAction::kCaller},
      {"", ReplyAction::kCaller},
  };
  for (const auto& [error, action] : cases) EXPECT_EQ(MeaningOf(error).action, action) << error;
}

// What a script's command was refused may come after a write of the same script: then it is not known not to have run.
TEST(ReplyTable, WhatAScriptMetAfterAWriteIsNeverCalledNotRun) {
  for (const std::string_view error : {
           "ERR The user executing the script can't run this command or subcommand script: 1f8f, on "
           "@user_script:1.",
           "ERR ACL failure in script: User pen has no permissions to run the 'set' command script: 1f8f, on "
           "@user_script:1.",
           "NOPERM this user has no permissions to run the 'set' command script: 1f8f, on @user_script:1.",
           "ERR Error running script (call to f_1f8f): @user_script:1: -NOPERM this user has no permissions",
           "ERR Error running script (call to f_1f8f): @user_script:1: -MOVED 1 a:1",
           "ERR Error running script (call to f_1f8f): @user_script:1: user_script:1: -1 is no number",
           "WRONGTYPE Operation against a key holding the wrong kind of value script: 1f8f, on "
           "@user_script:1.",
       }) {
    EXPECT_FALSE(MeaningOf(error).did_not_run()) << error;
  }
}

TEST(ReplyTable, ARowIsFoundByItsOwnPrefixAndRedirectsSayWhich) {
  for (const ReplyMeaning& row : ReplyTable()) {
    EXPECT_EQ(&MeaningOf(row.prefix), &row) << row.prefix;
    EXPECT_FALSE(row.meaning.empty());
    EXPECT_EQ(row.redirect.has_value(), row.action == ReplyAction::kRedirect) << row.prefix;
  }
}

TEST(ReplyTable, RedirectsAreRead) {
  const auto moved = ParseRedirect("MOVED 16383 10.0.0.2:6381", Redirect::Kind::kMoved);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->slot, 16'383);
  EXPECT_EQ(moved->host, "10.0.0.2");
  EXPECT_EQ(moved->port, 6'381);
  EXPECT_EQ(ParseRedirect("ASK 0 :7000", Redirect::Kind::kAsk)->host, "");
  EXPECT_EQ(ParseRedirect("ASK 0 2001:db8::1:7000", Redirect::Kind::kAsk)->host, "2001:db8::1");
  EXPECT_EQ(ParseRedirect("MOVED 1 [::1]:7000", Redirect::Kind::kMoved)->host, "::1");
  EXPECT_EQ(ParseRedirect("READONLY x", Redirect::Kind::kReadOnly)->slot, Exchange::kNoSlot);
  for (const std::string_view bad : {"MOVED", "MOVED 1", "MOVED x h:1", "MOVED 16384 h:1", "MOVED -1 h:1",
                                     "MOVED 1 h", "MOVED 1 h:0", "MOVED 1 h:65536", "MOVED 1 h:x"}) {
    EXPECT_FALSE(ParseRedirect(bad, Redirect::Kind::kMoved)) << bad;
  }
}

TEST(ReplyTable, APermissionThatIsMissingIsNamedAsTheRuleToGive) {
  const auto expect = [](std::string_view error, std::string_view part) {
    EXPECT_TRUE(IsAboutPermission(error)) << error;
    EXPECT_NE(Explain(error).find(part), std::string::npos) << Explain(error);
  };
  expect("NOPERM this user has no permissions to run the 'evalsha' command", "the rule +evalsha is missing");
  expect("NOPERM User pen has no permissions to run the 'script|load' command",
         "the rule +script|load is missing");
  expect("NOPERM this user has no permissions to access one of the keys used as arguments", "the rule ~");
  expect("NOPERM No permissions to access a key", "the rule ~");
  expect("NOPERM this user has no permissions to access one of the channels used as arguments", "the rule &");
  expect("ERR ACL failure in script: User pen has no permissions to run the 'set' command script: 1f8f",
         "the rule +set is missing");
  expect("ERR The user executing the script can't run this command or subcommand script: 1f8f", "ACL LOG");
}

TEST(ReplyTable, ExplanationsHaveTheErrorItsMeaningAndARemedyAndABound) {
  const std::string oom = Explain("OOM command not allowed when used memory > 'maxmemory'.");
  EXPECT_NE(oom.find("OOM command"), std::string::npos) << oom;
  EXPECT_NE(oom.find("noeviction"), std::string::npos) << oom;
  EXPECT_EQ(Explain("ERR odd"), "'ERR odd'");
  EXPECT_LT(Explain("MISCONF " + std::string(100'000, 'x')).size(), 600u);
}

}  // namespace
}  // namespace penstock::engine::redis
