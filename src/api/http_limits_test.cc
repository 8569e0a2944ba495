#include "api/http_limits.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/http_api.h"
#include "api/testing/fake_decider.h"
#include "engine/registry_book.h"
#include "http/session.h"
#include "policy/reader.h"

namespace penstock::api {
namespace {

constexpr core::Version kVersion = 1'785'000'000'123'456;

// Remembers what it was asked; answers when the test says so.
class FakeChanges final : public LimitChanges {
 public:
  struct Asked {
    std::string verb, domain, name, body;
    std::optional<core::Version> if_match;
    Done done;
  };
  void Put(std::string domain, std::string name, std::string body, std::optional<core::Version> if_match,
           Done done) override {
    asked.push_back({"PUT", std::move(domain), std::move(name), std::move(body), if_match, std::move(done)});
  }
  void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
              Done done) override {
    asked.push_back({"DELETE", std::move(domain), std::move(name), "", if_match, std::move(done)});
  }
  std::vector<Asked> asked;
};

class OnePolicy final : public ServerView {
 public:
  OnePolicy() {
    policy::Diagnostics diagnostics;
    std::shared_ptr<policy::Policy> policy = policy::ReadPolicy(
        "domains: {api: {limits: [{name: a, rate: 10/min}, {name: b, rate: 5/min, overrides: [{match: {u: "
        "x}, rate: 7/min}]}]}}",
        "p.yaml", {}, diagnostics);
    auto published = std::make_shared<service::PublishedPolicy>();
    for (core::Limit* limit : policy->limits()) {
      limit->version = kVersion;
      limit->number = static_cast<uint32_t>(published->sources.size());
      published->sources.push_back(
          {limit->name == "b", limit->name == "b" ? 0 : 7,
           std::make_shared<const std::string>(R"({"name":")" + limit->name + R"("})")});
    }
    published->policy = std::move(policy);
    published_ = std::move(published);
  }
  bool Ready(std::string&) const override { return true; }
  void AppendMetrics(std::string&) const override {}
  service::PolicyPointer policy() const override { return published_; }

 private:
  service::PolicyPointer published_;
};

class HttpLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override { session_.Open(); }
  std::string Send(std::string_view method, std::string_view path, std::string_view headers = "",
                   std::string_view body = "") {
    std::string bytes =
        std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n" + std::string(headers);
    if (!body.empty()) bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    bytes += "\r\n" + std::string(body);
    const std::span<char> space = session_.ReceiveSpace();
    EXPECT_GE(space.size(), bytes.size());
    std::copy(bytes.begin(), bytes.end(), space.begin());
    session_.Received(bytes.size());
    http::Action action = session_.Next();
    api_.Handle(*std::get<http::Incoming>(action).request,
                {&session_, &peer_, std::get<http::Incoming>(action).ticket});
    api_.Flush();
    return TakeOutput();
  }
  std::string TakeOutput() {
    std::string out(session_.Output());
    session_.Written(out.size());
    return out;
  }
  std::string Answer(const Result<engine::RegisteredLimit>& result) {
    changes_.asked.back().done(result);
    return TakeOutput();
  }

  FakeDecider decider_;
  ManualClock clock_{{1'000'000}};
  HttpOptions options_;
  OnePolicy server_;
  FakeChanges changes_;
  http::SessionOptions session_options_;
  http::Session session_{session_options_};
  FakePeer peer_;
  HttpApi api_{decider_, clock_, options_, server_, &changes_};
};

bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_F(HttpLimitsTest, AGetShowsWhereALimitComesFromAndItsTag) {
  const std::string one = Send("GET", "/v1/limits/api/a");
  EXPECT_TRUE(Has(one, "ETag: \"1785000000123456\"\r\n")) << one;
  EXPECT_TRUE(Has(one, R"("source":"file","revision":7,"definition":{"name":"a"}})")) << one;
  const std::string put = Send("GET", "/v1/limits/api/b");
  EXPECT_TRUE(Has(put, R"("source":"put","definition":{"name":"b"},"overrides":[{)")) << put;
  const std::string all = Send("GET", "/v1/limits");
  EXPECT_FALSE(Has(all, "ETag")) << all;
  EXPECT_FALSE(Has(all, "definition")) << all;
  EXPECT_TRUE(Has(all, R"("source":"put")")) << all;
}

TEST_F(HttpLimitsTest, APutIsAnsweredWhenItIsInForce) {
  EXPECT_EQ(Send("PUT", "/v1/limits/api/a", "If-Match: \"1785000000123456\"\r\n", R"({"rate":"3/min"})"), "");
  ASSERT_EQ(changes_.asked.size(), 1u);
  const FakeChanges::Asked& asked = changes_.asked[0];
  EXPECT_EQ(asked.verb + " " + asked.domain + " " + asked.name + " " + asked.body,
            R"(PUT api a {"rate":"3/min"})");
  EXPECT_EQ(asked.if_match, kVersion);
  const std::string out =
      Answer(engine::RegisteredLimit{"api", "a", kVersion + 1, true, 0, R"({"name":"a","rate":"3/min"})"});
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_TRUE(Has(out, "ETag: \"1785000000123457\"\r\n")) << out;
  EXPECT_TRUE(Has(out, R"({"domain":"api","name":"a","version":1785000000123457,"source":"put",)"
                       R"("definition":{"name":"a","rate":"3/min"}})"))
      << out;
  EXPECT_EQ(peer_.woken, 1);
}

TEST_F(HttpLimitsTest, ANewLimitIs201AndARemovedOneSaysSo) {
  Send("PUT", "/v1/limits/new/limit", "", "rate: 3/min\n");
  EXPECT_EQ(changes_.asked[0].if_match, std::nullopt);
  EXPECT_TRUE(Has(Answer(engine::RegisteredLimit{"new", "limit", 5, true, 0, "{}"}), "HTTP/1.1 201 "));
  Send("DELETE", "/v1/limits/api/b", "If-Match: W/\"5\"\r\n");
  EXPECT_EQ(changes_.asked[1].verb, "DELETE");
  EXPECT_EQ(changes_.asked[1].if_match, 5);
  const std::string out = Answer(engine::RegisteredLimit{"api", "b", 6, false, 0, ""});
  EXPECT_TRUE(Has(out, "HTTP/1.1 200 ")) << out;
  EXPECT_TRUE(Has(out, R"({"domain":"api","name":"b","version":6,"source":null})")) << out;
}

TEST_F(HttpLimitsTest, ErrorsHaveTheirStatus) {
  Send("PUT", "/v1/limits/api/a", "If-Match: 3\r\n", "{}");
  const std::string refused = Answer(engine::VersionRefused(kVersion));
  EXPECT_TRUE(Has(refused, "HTTP/1.1 412 ")) << refused;
  EXPECT_TRUE(Has(refused, "version 1785000000123456 of the limit is in force")) << refused;
  Send("PUT", "/v1/limits/api/a", "", "{}");
  EXPECT_TRUE(Has(Answer(Invalid("rate: what is it")), "HTTP/1.1 400 "));
  Send("DELETE", "/v1/limits/api/a");
  EXPECT_TRUE(Has(Answer(engine::NotPut()), "HTTP/1.1 404 "));
  Send("DELETE", "/v1/limits/api/a");
  EXPECT_TRUE(Has(Answer(Fail(ErrorKind::kUnavailable, "away")), "HTTP/1.1 503 "));
  EXPECT_EQ(changes_.asked.size(), 4u);
}

TEST_F(HttpLimitsTest, WhatCannotBeAskedIsSaidAtOnce) {
  EXPECT_TRUE(Has(Send("PUT", "/v1/limits/api/a", "If-Match: \"x\"\r\n", "{}"), "HTTP/1.1 400 "));
  EXPECT_TRUE(Has(Send("PUT", "/v1/limits/api/%20", "", "{}"), "HTTP/1.1 400 "));
  EXPECT_TRUE(Has(Send("DELETE", "/v1/limits/api/none", "If-Match: *\r\n"), "HTTP/1.1 412 "));
  const std::string post = Send("POST", "/v1/limits/api/a", "", "{}");
  EXPECT_TRUE(Has(post, "HTTP/1.1 405 ")) << post;
  EXPECT_TRUE(Has(post, "Allow: GET, HEAD, PUT, DELETE\r\n")) << post;
  EXPECT_TRUE(Has(Send("PUT", "/v1/limits", "", "{}"), "HTTP/1.1 405 "));
  EXPECT_TRUE(changes_.asked.empty());
  Send("DELETE", "/v1/limits/api/a", "If-Match: *\r\n");
  EXPECT_EQ(changes_.asked.size(), 1u);
}

}  // namespace
}  // namespace penstock::api
