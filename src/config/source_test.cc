#include "config/source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace penstock::config {
namespace {

namespace fs = std::filesystem;
using State = ReloadResult::State;

class SourceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/penstock-source-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  static std::string Limits(const std::string& domain, const std::string& limit) {
    return "domains:\n  " + domain + ":\n    limits:\n      - {" + limit + "}\n";
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(SourceTest, LoadsAFileAndReloadsIt) {
  Write("p.yaml", Limits("d", "name: a, rate: 1/s"));
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics)) << diagnostics.Text();
  ASSERT_NE(source.current()->policy->FindDomain("d"), nullptr);
  EXPECT_EQ(source.Reload().state, State::kUnchanged);
  Write("p.yaml", Limits("e", "name: a, rate: 1/s"));
  const auto reloaded = source.Reload();
  ASSERT_EQ(reloaded.state, State::kLoaded);
  EXPECT_NE(reloaded.policy->FindDomain("e"), nullptr);
  EXPECT_EQ(source.loads(), 2u);
}

// Case C37: a broken file, a half-written one, an empty one, none at all.
TEST_F(SourceTest, TheLastGoodPolicyStays) {
  const std::string good = Limits("d", "name: a, rate: 1/s");
  Write("p.yaml", good);
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics));
  const auto policy = source.current()->policy;
  const auto fails = [&](const std::string& want) {
    const auto result = source.Reload();
    EXPECT_EQ(result.state, State::kFailed);
    EXPECT_EQ(result.policy, nullptr);
    EXPECT_EQ(source.current()->policy, policy);
    EXPECT_EQ(result.Text(), "policy not reloaded, the last good one stays\n" + want + "\n");
  };
  Write("p.yaml", Limits("d", "name: a, rate: 1/sec"));
  fails(Path("p.yaml") + ":4: rate: unknown unit \"sec\" (did you mean s?)");
  Write("p.yaml", "domains:\n  d:\n    limits:\n      - {name: a, ra");
  fails(Path("p.yaml") + ":4: no YAML: end of map flow not found");
  Write("p.yaml", "");
  fails(Path("p.yaml") + ": the file is empty");
  fs::remove(folder_ / "p.yaml");
  fails(Path("p.yaml") + ": No such file or directory");
  Write("p.yaml", good);
  EXPECT_EQ(source.Reload().state, State::kUnchanged);
  EXPECT_EQ(source.loads(), 1u);
}

TEST_F(SourceTest, TheFirstLoadMayFailAndIsRepeated) {
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  EXPECT_FALSE(source.Load(diagnostics));
  EXPECT_EQ(source.current(), nullptr);
  Write("p.yaml", Limits("d", "name: a, rate: 1/s"));
  EXPECT_EQ(source.Reload().state, State::kLoaded);
}

TEST_F(SourceTest, WithoutAPathThereIsNoDomain) {
  PolicySource source("", {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics));
  EXPECT_TRUE(source.current()->policy->limits().empty());
  EXPECT_EQ(source.current()->listen.http->port, 8080);
  EXPECT_EQ(source.Reload().state, State::kUnchanged);
}

TEST_F(SourceTest, WhatTheEngineRefusedIsTriedAgain) {
  Write("p.yaml", Limits("d", "name: a, rate: 1/s"));
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics));
  const auto first = source.current()->policy;
  Write("p.yaml", Limits("d", "name: a, rate: 2/s"));
  ASSERT_EQ(source.Reload().state, State::kLoaded);
  source.Reject();
  EXPECT_EQ(source.current()->policy, first);
  EXPECT_EQ(source.Reload().state, State::kLoaded);
}

TEST_F(SourceTest, SaysWhatNeedsARestart) {
  const std::string limits = Limits("d", "name: a, rate: 1/s");
  Write("p.yaml", "engine: {max_keys: 1000, on_failure: deny}\nlisten: {http: 127.0.0.1:1}\n" + limits);
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics));
  Write("p.yaml",
        "engine: {max_keys: 2000, on_failure: allow}\nlisten: {http: 127.0.0.1:2, threads: 3}\n" + limits);
  const auto result = source.Reload();
  EXPECT_EQ(result.Text(),
            "policy reloaded\nengine.max_keys changed: this needs a restart\n"
            "listen.http changed: this needs a restart\nlisten.threads changed: this needs a restart\n");
  EXPECT_EQ(source.current()->engine.max_keys, 1000);
  // What limits do without the engine is theirs, so a reload takes it.
  EXPECT_EQ(result.policy->limits()[0]->on_failure, core::OnFailure::kAllow);
  Write("p.yaml", "engine: {max_keys: 1000, on_failure: allow}\nlisten: {http: 127.0.0.1:1}\n" + limits);
  EXPECT_EQ(source.Reload().Text(), "policy reloaded\n");
}

TEST_F(SourceTest, SaysWhichLimitsStartFreshBuckets) {
  const auto domains = [](const std::string& limits) { return "domains: {d: {limits: [" + limits + "]}}\n"; };
  Write("p.yaml", domains("{name: a, key: [x], rate: 1/s, burst: 5}, {name: b, key: [ip], rate: 1/s},"
                          "{name: c, key: [x], rate: 1/s, overrides: [{match: {x: 1}, rate: 2/s}]}, {name: "
                          "gone, rate: 1/s}"));
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics)) << diagnostics.Text();
  // Rate, burst, match and unit are no part of the identity.
  Write("p.yaml",
        domains("{name: a, key: [x], rate: 2/s, match: {y: 1}, unit: t}, {name: b, key: [{ip: {mask6: 64}}],"
                "rate: 1/s, algorithm: sliding_window}, {name: c, key: [x], rate: 1/s, overrides: "
                "[{match: {x: 2}, rate: 2/s}, {match: {plan: gold}, rate: 2/s}]}, {name: new, rate: 1/s}"));
  EXPECT_EQ(source.Reload().Text(),
            "policy reloaded\nthe limit d/b starts fresh buckets: algorithm, masks changed\n"
            "the limit d/c starts fresh buckets: the match of an override with buckets of its own changed\n");
}

TEST_F(SourceTest, TellsWhatLintWouldWarnOf) {
  Write("p.yaml", Limits("d", "name: a, rate: 0"));
  PolicySource source(Path("p.yaml"), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics));
  ASSERT_EQ(diagnostics.warnings().size(), 1u);
  EXPECT_EQ(diagnostics.warnings()[0].Text(),
            Path("p.yaml") + ":4: the limit a: rate 0 without a match denies every request of the domain");
  Write("p.yaml", Limits("d", "name: b, rate: 0"));
  EXPECT_EQ(source.Reload().Text(),
            "policy reloaded\nwarning: " + Path("p.yaml") +
                ":4: the limit b: rate 0 without a match denies every request of the domain\n");
}

TEST_F(SourceTest, AFolderInTheOrderOfNames) {
  Write("b.yml", Limits("b", "name: a, rate: 1/s"));
  Write("a.yaml", Limits("a", "name: a, rate: 1/s") + "listen: {http: off}\n");
  Write("readme.txt", "not: [read");
  Write(".hidden.yaml", "not: [read");
  PolicySource source(folder_.string(), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics)) << diagnostics.Text();
  EXPECT_EQ(source.current()->files, (std::vector<std::string>{Path("a.yaml"), Path("b.yml")}));
  EXPECT_EQ(source.current()->policy->limits().size(), 2u);
  EXPECT_FALSE(source.current()->listen.http);
}

TEST_F(SourceTest, InAFolderADomainAndASectionStandOnce) {
  Write("a.yaml", "revision: 1\nlisten: {}\n" + Limits("d", "name: a, rate: 1/s"));
  Write("b.yaml", "revision: 2\nlisten: {}\n" + Limits("d", "name: b, rate: 1/s"));
  PolicySource source(folder_.string(), {});
  policy::Diagnostics diagnostics;
  ASSERT_FALSE(source.Load(diagnostics));
  EXPECT_EQ(diagnostics.Text(), Path("b.yaml") + ":1: revision stands already in " + Path("a.yaml") + ":1\n" +
                                    Path("b.yaml") + ":2: listen stands already in " + Path("a.yaml") +
                                    ":2\n" + Path("b.yaml") + ":4: the domain \"d\" stands already in " +
                                    Path("a.yaml") + ":4: a domain stands in one file, once\n");
}

TEST_F(SourceTest, AnEmptyFolderIsAnError) {
  policy::Diagnostics diagnostics;
  EXPECT_EQ(LoadPath(folder_.string(), {}, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.Text(), folder_.string() + ": no *.yaml or *.yml in this folder\n");
}

// A ConfigMap's volume: names link into ..data, and ..data into a dated folder that is swapped as a whole.
TEST_F(SourceTest, AConfigMapIsReadOnceAndSwapped) {
  fs::create_directory(folder_ / "..1");
  Write("..1/a.yaml", Limits("a", "name: a, rate: 1/s"));
  fs::create_directory_symlink("..1", folder_ / "..data");
  fs::create_symlink("..data/a.yaml", folder_ / "a.yaml");
  fs::create_symlink("a.yaml", folder_ / "again.yaml");
  PolicySource source(folder_.string(), {});
  policy::Diagnostics diagnostics;
  ASSERT_TRUE(source.Load(diagnostics)) << diagnostics.Text();
  EXPECT_EQ(source.current()->files, (std::vector<std::string>{Path("a.yaml")}));
  fs::create_directory(folder_ / "..2");
  Write("..2/a.yaml", Limits("b", "name: a, rate: 1/s"));
  fs::create_directory_symlink("..2", folder_ / "..data_tmp");
  fs::rename(folder_ / "..data_tmp", folder_ / "..data");
  ASSERT_EQ(source.Reload().state, State::kLoaded);
  EXPECT_NE(source.current()->policy->FindDomain("b"), nullptr);
}

TEST_F(SourceTest, OnlyRegularFilesWithinBounds) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadFileBounded(Path("pipe"), 10).error().message, Path("pipe") + ": no regular file");
  Write("big", std::string(11, 'x'));
  EXPECT_EQ(ReadFileBounded(Path("big"), 10).error().message, Path("big") + ": larger than 10 bytes");
  EXPECT_EQ(ReadFileBounded(Path("big"), 11).value().size(), 11u);
}

}  // namespace
}  // namespace penstock::config
