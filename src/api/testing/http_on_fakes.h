// The HTTP interface on a session without a socket, with a decider and desks that answer as the test says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "api/http_api.h"
#include "api/testing/fake_decider.h"
#include "http/session.h"

namespace penstock::api {

class FakeServer final : public ServerView {
 public:
  bool Ready(std::string& reason) const override {
    reason = why_not;
    return why_not.empty();
  }
  void AppendMetrics(std::string& out) const override { out += "penstock_keys 3\n"; }
  service::PolicyPointer policy() const override { return nullptr; }
  std::string why_not;
};

inline bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class HttpOnFakes : public ::testing::Test {
 protected:
  // One connection.
  struct Connection {
    explicit Connection(const http::SessionOptions& options) : session(options) { session.Open(); }
    http::Session session;
    FakePeer peer;
  };

  // Sends whole bytes as one read batch, and returns what comes out.
  std::string Send(std::string_view bytes) { return Send(connection_, bytes); }
  std::string Send(Connection& to, std::string_view bytes) {
    const std::span<char> space = to.session.ReceiveSpace();
    EXPECT_GE(space.size(), bytes.size());
    std::copy(bytes.begin(), bytes.end(), space.begin());
    to.session.Received(bytes.size());
    for (;;) {
      http::Action action = to.session.Next();
      auto* incoming = std::get_if<http::Incoming>(&action);
      if (incoming == nullptr) break;
      api_.Handle(*incoming->request, {&to.session, &to.peer, incoming->ticket});
    }
    api_.Flush();
    return TakeOutput(to);
  }
  std::string TakeOutput() { return TakeOutput(connection_); }
  static std::string TakeOutput(Connection& of) {
    std::string out(of.session.Output());
    if (!out.empty()) of.session.Written(out.size());
    return out;
  }
  // As a driver does it.
  void Close(Connection& connection) {
    api_.Closed(connection.peer);
    connection.session.Detach();
  }
  std::string Post(std::string_view path, std::string_view body, std::string_view headers = "") {
    return Send(PostText(path, body, headers));
  }
  static std::string PostText(std::string_view path, std::string_view body, std::string_view headers = "") {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n" + std::string(headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  std::string Get(std::string_view path, std::string_view headers = "", std::string_view method = "GET") {
    return Send(std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n" +
                std::string(headers) + "\r\n");
  }

  FakeDecider decider_;
  ManualClock clock_{{1'000'000}};
  HttpOptions options_;
  FakeServer server_;
  http::SessionOptions session_options_;
  Connection connection_{session_options_};
  HttpApi api_{decider_, clock_, options_, server_};
};

}  // namespace penstock::api
