#include "engine/redis/checkup/access.h"

#include <gtest/gtest.h>

namespace penstock::checkup {
namespace {

using engine::redis::TopologyKind;

ProbeResult Heard(std::string_view rule, resp::ReplyType type, std::string text) {
  for (const Need& need : Needs()) {
    if (need.rule == rule) return {&need, "h:1", {type, 0, std::move(text), {}}};
  }
  ADD_FAILURE() << "nothing needs " << rule;
  return {&Needs()[0], "h:1", {}};
}

using enum resp::ReplyType;

TEST(AccessTest, EveryVersionsRefusalIsRead) {
  const struct {
    resp::ReplyType type;
    const char* text;
    const char* rule;
  } cases[] = {
      {kError, "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
       "+evalsha"},
      {kError, "NOPERM this user has no permissions to run the 'evalsha' command", "+evalsha"},
      {kError, "NOPERM User pen has no permissions to run the 'evalsha' command", "+evalsha"},
      {kError, "NOPERM this user has no permissions to access one of the keys used as arguments", "~pen:*"},
      {kError, "NOPERM No permissions to access a key", "~pen:*"},
      {kError, "NOPERM No permissions to access a channel", "&pen:*"},
      {kBulk, "User pen has no permissions to run the 'evalsha' command", "+evalsha"},
      {kBulk, "This user has no permissions to run the 'evalsha' command", "+evalsha"},
      {kBulk, "This user has no permissions to access the 'pen:{verify}1' key", "~pen:*"},
      {kBulk, "User pen has no permissions to access the 'pen:{verify}1' channel", "&pen:*"},
      {kError, "NOSCRIPT No matching script. Please use EVAL.", ""},
      {kError, "MOVED 12 127.0.0.1:7001", ""},
      {kError, "READONLY You can't write against a read only replica.", ""},
      {kSimple, "OK", ""},
  };
  for (const auto& c : cases)
    EXPECT_EQ(MissingRule(Heard("+evalsha", c.type, c.text), "pen:"), c.rule) << c.text;
}

TEST(AccessTest, TheRemedyIsTheExactRule) {
  const Finding finding = CheckAccess("pen", "pen:",
                                      {Heard("+ping", kSimple, "PONG"),
                                       Heard("+evalsha", kError,
                                             "NOPERM this user has no permissions to run the "
                                             "'evalsha' command"),
                                       Heard("+get", kError, "NOPERM No permissions to access a key"),
                                       Heard("+set", kError, "NOPERM No permissions to access a key")});
  EXPECT_EQ(finding.name, "acl");
  EXPECT_EQ(finding.status, Status::kFailed);
  EXPECT_EQ(finding.figure, "user pen lacks +evalsha ~pen:*");
  EXPECT_EQ(finding.remedy, "ACL SETUSER pen +evalsha ~pen:* (on every server), then ACL SAVE");
}

TEST(AccessTest, ProbesNameAScratchKeyUnderThePrefix) {
  for (const Need& need : Needs()) {
    for (const std::string& word : Probe(need, "pen:", "{verify}1")) {
      EXPECT_NE(word, "KEY");
      EXPECT_NE(word, "SHA");
      if (word.find("{verify}") != std::string::npos) {
        EXPECT_EQ(word, "pen:{verify}1");
      }
    }
  }
}

TEST(AccessTest, TheRecommendedRulesHaveEveryNeedOnce) {
  const std::string rules = " " + RecommendedRules(TopologyKind::kCluster, "pen:") + " ";
  for (const Need& need : Needs()) {
    if (!Applies(need, TopologyKind::kCluster)) continue;
    const std::string rule = " " + std::string(need.rule) + " ";
    const size_t at = rules.find(rule);
    ASSERT_NE(at, std::string::npos) << need.rule;
    EXPECT_EQ(rules.find(rule, at + 1), std::string::npos) << need.rule;
  }
  EXPECT_TRUE(rules.starts_with(" resetkeys ~pen:* resetchannels &pen:* -@all "));
}

TEST(AccessTest, AUserThatMayDoEverythingIsAFinding) {
  UserRights rights;
  rights.user = "default";
  rights.without_password = true;
  rights.other_keys = true;
  for (const Danger& danger : Dangers()) rights.allowed.push_back(&danger);
  const Finding finding = CheckExcess(rights, TopologyKind::kSingle, "pen:");
  EXPECT_EQ(finding.status, Status::kWarning);
  EXPECT_NE(finding.figure.find("without password"), std::string::npos);
  EXPECT_NE(finding.remedy.find("~pen:*"), std::string::npos);
}

TEST(AccessTest, AUserThatMayNoMoreIsFineAndOneThatMayNotBeAskedAboutIsSkipped) {
  UserRights rights;
  rights.user = "pen";
  EXPECT_EQ(CheckExcess(rights, TopologyKind::kSingle, "pen:").status, Status::kOk);
  rights.refused = "NOPERM";
  EXPECT_EQ(CheckExcess(rights, TopologyKind::kSingle, "pen:").status, Status::kSkipped);
}

}  // namespace
}  // namespace penstock::checkup
