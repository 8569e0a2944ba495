#include "config/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/source.h"

namespace penstock::config {
namespace {

std::string ErrorsOf(const std::string& text) {
  policy::Diagnostics diagnostics;
  const auto loaded = LoadTexts({{"p.yaml", text}}, {}, diagnostics);
  EXPECT_EQ(loaded == nullptr, !diagnostics.ok());
  return diagnostics.Text();
}

std::unique_ptr<Loaded> Load(const std::string& text) {
  policy::Diagnostics diagnostics;
  auto loaded = LoadTexts({{"p.yaml", text}}, {}, diagnostics);
  EXPECT_EQ(diagnostics.Text(), "");
  return loaded;
}

TEST(Settings, DefaultsComeFromTheTable) {
  const auto loaded = Load("revision: 1\n");
  EXPECT_EQ(loaded->engine.url, "memory:");
  EXPECT_EQ(loaded->engine.timeout, Millis(20));
  EXPECT_EQ(loaded->engine.on_failure, core::OnFailure::kLocal);
  EXPECT_EQ(loaded->engine.fleet_size, 0);
  EXPECT_EQ(loaded->engine.prefix, "pen:");
  EXPECT_EQ(loaded->engine.max_keys, 10'000'000);
  EXPECT_FALSE(loaded->engine.allow_when_full);
  EXPECT_FALSE(loaded->engine.snapshot);
  EXPECT_EQ(loaded->listen.http->Text(), "127.0.0.1:8080");
  EXPECT_EQ(loaded->listen.resp->Text(), "127.0.0.1:6380");
  EXPECT_FALSE(loaded->listen.grpc);
  EXPECT_EQ(loaded->listen.token_file, "");
  EXPECT_FALSE(loaded->listen.tls);
  EXPECT_EQ(loaded->listen.threads, 0);
}

TEST(Settings, ReadsEverything) {
  const auto loaded = Load(R"(
engine:
  url: "memory:"
  timeout: 50ms
  on_failure: deny
  fleet_size: 4
  prefix: "x:"
  max_keys: 1_000_000
  on_full: allow
  snapshot: {path: /var/lib/penstock/state, every: 10s}
listen:
  http: "[::1]:0"
  resp: off
  token_file: /etc/token
  tls: {cert: a, key: b, client_ca: c}
  trusted_proxies: [127.0.0.0/8, "::1"]
  threads: 2
domains: {d: {limits: [{name: a, rate: 1/s}, {name: b, rate: 1/s, on_failure: allow}]}}
)");
  EXPECT_EQ(loaded->engine.timeout, Millis(50));
  EXPECT_EQ(loaded->engine.fleet_size, 4);
  EXPECT_EQ(loaded->engine.max_keys, 1'000'000);
  EXPECT_TRUE(loaded->engine.allow_when_full);
  EXPECT_EQ(loaded->engine.snapshot, (SnapshotOptions{"/var/lib/penstock/state", Seconds(10)}));
  EXPECT_EQ(loaded->listen.http->Text(), "[::1]:0");
  EXPECT_TRUE(loaded->listen.http->IsLoopback());
  EXPECT_FALSE(loaded->listen.resp);
  EXPECT_EQ(loaded->listen.tls, (TlsOptions{"a", "b", "c"}));
  ASSERT_EQ(loaded->listen.trusted_proxies.size(), 2u);
  EXPECT_EQ(loaded->listen.threads, 2);
  // The engine's on_failure is what limits do that do not say their own.
  EXPECT_EQ(loaded->policy->limits()[0]->on_failure, core::OnFailure::kDeny);
  EXPECT_EQ(loaded->policy->limits()[1]->on_failure, core::OnFailure::kAllow);
}

// As the documentation and people write it, though to YAML alone the second colon is a mistake.
TEST(Settings, TheMemoryEnginesUrl) {
  for (const char* url : {"memory:", "memory", "\"memory:\"", "memory:  # comment", "memory:\r"}) {
    const auto loaded = Load("engine:\n  url: " + std::string(url) + "\n  max_keys: 5000\n");
    EXPECT_EQ(loaded->engine.url, "memory:") << url;
    EXPECT_EQ(loaded->engine.max_keys, 5000);
  }
}

TEST(Settings, ErrorsNameTheirLine) {
  EXPECT_EQ(ErrorsOf("engine:\n  url: redis://user:pw@host:6379/0\n"), "");
  EXPECT_EQ(ErrorsOf("engine:\n  url: memry\n"),
            "p.yaml:2: unknown engine \"memry\" (did you mean memory:?)\n");
  EXPECT_EQ(ErrorsOf("engine:\n  url: reddis://user:pw@h\n"),
            "p.yaml:2: unknown engine \"reddis\" (did you mean redis:?)\n");
  EXPECT_EQ(ErrorsOf("engine:\n  url: etcd://h\n"),
            "p.yaml:2: the engine \"etcd://\" is not in this build yet (memory: and redis:// are)\n");
  EXPECT_EQ(ErrorsOf("engine:\n  timeout: 20\n"),
            "p.yaml:2: timeout: \"20\" has no unit (one of us, ms, s, min, h, d, w)\n");
  EXPECT_EQ(ErrorsOf("engine:\n  timeout: 10us\n"), "p.yaml:2: timeout is 1ms to 1min, not 10us\n");
  EXPECT_EQ(ErrorsOf("engine:\n  snapshot:\n    every: 60s\n"), "p.yaml:3: engine.snapshot needs path\n");
  EXPECT_EQ(ErrorsOf("engine:\n  max_key: 5\n"),
            "p.yaml:2: unknown key \"max_key\" in engine (did you mean max_keys?)\n");
  EXPECT_EQ(
      ErrorsOf("listen:\n  http: 8080\n"),
      "p.yaml:2: http: \"8080\" is no ADDRESS:PORT: a port is missing, as in 127.0.0.1:8080 (or off)\n");
  EXPECT_EQ(ErrorsOf("listen:\n  grpc: 127.0.0.1:8081\n"),
            "p.yaml:2: grpc: gRPC is not in this build yet (off is the only value)\n");
  EXPECT_EQ(ErrorsOf("listen:\n  trusted_proxies:\n  - 10.0.0.0/8\n  - proxy\n"),
            "p.yaml:4: trusted_proxies: \"proxy\" is no network (e.g. 10.0.0.0/8 or 2001:db8::/32)\n");
  EXPECT_EQ(ErrorsOf("listen:\n  threads: 0\n"), "p.yaml:2: threads is 1 to 256, not 0\n");
  EXPECT_EQ(ErrorsOf("listen:\n  tls: {cert: a}\n"), "p.yaml:2: listen.tls needs key\n");
  EXPECT_EQ(ErrorsOf("listen: on\n"), "p.yaml:1: listen is a mapping, not \"on\"\n");
}

TEST(Settings, Listeners) {
  EXPECT_EQ(ParseListen("localhost:1").value()->Text(), "127.0.0.1:1");
  EXPECT_EQ(ParseListen("off").value(), std::nullopt);
  EXPECT_EQ(ParseListen("*:8080").value()->Text(), "0.0.0.0:8080");
  EXPECT_FALSE(ParseListen("*:8080").value()->IsLoopback());
  EXPECT_FALSE(ParseListen("host:80"));
}

TEST(Settings, FlagsBeatTheFile) {
  const auto loaded = Load("listen: {http: 127.0.0.1:1, resp: 127.0.0.1:2}\n");
  Flags flags;
  flags.http = "127.0.0.1:9";
  flags.resp = "off";
  flags.threads = 3;
  flags.snapshot = "/x";
  ASSERT_TRUE(ApplyFlags(flags, loaded->engine, loaded->listen));
  EXPECT_EQ(loaded->listen.http->port, 9);
  EXPECT_FALSE(loaded->listen.resp);
  EXPECT_EQ(loaded->listen.threads, 3);
  EXPECT_EQ(loaded->engine.snapshot, (SnapshotOptions{"/x", Seconds(60)}));
  Flags bad;
  bad.engine = "etcd://h";
  EXPECT_EQ(ApplyFlags(bad, loaded->engine, loaded->listen).error().message,
            "--engine: the engine \"etcd://\" is not in this build yet (memory: and redis:// are)");
  bad = {};
  bad.http = "nowhere";
  EXPECT_FALSE(ApplyFlags(bad, loaded->engine, loaded->listen));
  bad = {};
  bad.threads = 0;
  EXPECT_FALSE(ApplyFlags(bad, loaded->engine, loaded->listen));
  bad = {};
  bad.grpc = "127.0.0.1:1";
  EXPECT_FALSE(ApplyFlags(bad, loaded->engine, loaded->listen));
}

TEST(Settings, TheToken) {
  const std::string path = testing::TempDir() + "/penstock-token-test";
  ListenOptions listen;
  const auto none = [](const char*) -> const char* { return nullptr; };
  const auto set = [](const char* name) -> const char* {
    return std::string(name) == "PENSTOCK_TOKEN" ? "s3cret" : nullptr;
  };
  EXPECT_EQ(ReadToken(listen, none).value(), std::nullopt);
  EXPECT_EQ(ReadToken(listen, set).value(), "s3cret");
  listen.token_file = path;
  std::ofstream(path) << "from-file\r\nmore\n";
  EXPECT_EQ(ReadToken(listen, none).value(), "from-file");
  EXPECT_EQ(ReadToken(listen, set).value(), "s3cret");
  std::ofstream(path) << "\n";
  EXPECT_FALSE(ReadToken(listen, none));
  std::ofstream(path) << "two words\n";
  EXPECT_FALSE(ReadToken(listen, none));
  std::filesystem::remove(path);
  EXPECT_FALSE(ReadToken(listen, none));
  EXPECT_FALSE(ReadToken(listen, [](const char*) { return ""; }));
}

}  // namespace
}  // namespace penstock::config
