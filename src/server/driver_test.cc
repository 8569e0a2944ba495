// The drivers between a connection and the handlers, with handlers that answer when the test says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "http/response_writer.h"
#include "server/http_driver.h"
#include "server/resp_driver.h"

namespace penstock::server {
namespace {

class FakeWire final : public net::Wire {
 public:
  void OutputReady() noexcept override { ++ready; }
  const IpAddress* address() const noexcept override { return &address_; }
  int ready = 0;

 private:
  const IpAddress address_ = IpAddress::V4(0x7f000001);
};

class FakeHttpHandler final : public api::HttpHandler {
 public:
  void Handle(const http::Request& request, api::HttpSlot slot) noexcept override {
    paths.emplace_back(request.path);
    slots.push_back(slot);
  }
  void Flush() noexcept override { ++flushes; }
  // Answers the request with its path.
  bool Answer(size_t index) {
    const api::HttpSlot& slot = slots[index];
    const bool owed = slot.session->Answer(slot.ticket, [&](std::string& out, const http::ReplyShape& shape) {
      http::ResponseWriter writer(out, shape, 200);
      writer.Body("text/plain", paths[index]);
    });
    slot.peer->ReplyReady();
    return owed;
  }
  void Closed(api::Peer&) noexcept override { ++closed; }
  bool Waits(const api::Peer&) const noexcept override { return waits; }
  std::vector<std::string> paths;
  std::vector<api::HttpSlot> slots;
  int closed = 0;
  bool waits = false;
  int flushes = 0;
};

class FakeRespHandler final : public api::RespHandler {
 public:
  void Handle(const resp::Command& command, api::RespSlot slot) noexcept override {
    keys.emplace_back(command.args[1]);
    slots.push_back(slot);
  }
  void Flush() noexcept override { ++flushes; }
  bool Answer(size_t index) {
    const api::RespSlot& slot = slots[index];
    const bool owed =
        slot.session->Answer(slot.ticket, [&](resp::Writer& writer) { writer.Simple(keys[index]); });
    slot.peer->ReplyReady();
    return owed;
  }
  void Closed(api::Peer&) noexcept override { ++closed; }
  bool Waits(const api::Peer&) const noexcept override { return waits; }
  std::vector<std::string> keys;
  std::vector<api::RespSlot> slots;
  int closed = 0;
  bool waits = false;
  int flushes = 0;
};

void Receive(net::Protocol& driver, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> space = driver.ReceiveSpace();
    const size_t size = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), size);
    driver.Received(size);
    bytes.remove_prefix(size);
  }
}

std::string TakeOutput(net::Protocol& driver) {
  std::string output(driver.Output());
  if (!output.empty()) driver.Written(output.size());
  return output;
}

std::string Get(std::string_view path) { return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

std::string Throttle(std::string_view key) { return "CL.THROTTLE " + std::string(key) + " 1 1 1\r\n"; }

// Where the answers for the paths stand in the output; all must, in this order.
bool InOrder(const std::string& output, const std::vector<std::string>& paths) {
  size_t at = 0;
  for (const std::string& path : paths) {
    at = output.find("\r\n\r\n" + path, at);
    if (at == std::string::npos) return false;
  }
  return true;
}

TEST(HttpDriver, APipelineIsFlushedOnceAndAnsweredInOrderWheneverTheAnswersCome) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  EXPECT_EQ(driver.wants().stage, net::Stage::kIdle);
  Receive(driver, Get("/a") + Get("/b") + Get("/c"));
  EXPECT_EQ(handler.flushes, 1);
  ASSERT_EQ(handler.slots.size(), 3u);
  EXPECT_EQ(*handler.slots[0].peer->address(), IpAddress::V4(0x7f000001));
  EXPECT_TRUE(driver.wants().open);
  EXPECT_EQ(driver.wants().stage, net::Stage::kReply);
  EXPECT_TRUE(handler.Answer(2));
  EXPECT_TRUE(handler.Answer(1));
  EXPECT_TRUE(driver.Output().empty());
  EXPECT_TRUE(handler.Answer(0));
  EXPECT_EQ(wire.ready, 3);
  EXPECT_TRUE(InOrder(TakeOutput(driver), {"/a", "/b", "/c"}));
  EXPECT_FALSE(driver.wants().open);
  EXPECT_TRUE(driver.wants().read);
}

// Of a peer that has closed no more is to be seen than its end.
TEST(HttpDriver, ThePeersEndEndsARequestThatWaitsInAQueueAndNoOther) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  Receive(driver, Get("/a"));
  driver.ReceivedEnd();
  EXPECT_EQ(handler.closed, 0);
  EXPECT_FALSE(driver.wants().close);
  EXPECT_TRUE(handler.Answer(0));
  driver.Close();
  driver.Open(wire);
  handler.closed = 0;
  handler.waits = true;
  Receive(driver, Get("/b"));
  driver.ReceivedEnd();
  EXPECT_EQ(handler.closed, 1);
  EXPECT_TRUE(driver.wants().close);
  EXPECT_FALSE(driver.wants().read);
  EXPECT_FALSE(handler.Answer(1));
}

TEST(HttpDriver, WhoSaidCloseAndWaitsInAQueueIsMissedThoughNothingIsReadAnyMore) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  Receive(driver, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_FALSE(driver.wants().read);
  EXPECT_FALSE(driver.wants().end);
  handler.waits = true;
  EXPECT_TRUE(driver.wants().end);
  driver.ReceivedEnd();
  EXPECT_EQ(handler.closed, 1);
  EXPECT_TRUE(driver.wants().close);
}

TEST(HttpDriver, AnAnswerAfterTheConnectionClosedReachesNobody) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  Receive(driver, Get("/old"));
  driver.Close();
  EXPECT_EQ(handler.slots[0].peer->address(), nullptr);
  driver.Open(wire);
  Receive(driver, Get("/new"));
  EXPECT_FALSE(handler.Answer(0));
  EXPECT_TRUE(driver.Output().empty());
  EXPECT_TRUE(handler.Answer(1));
  EXPECT_TRUE(InOrder(TakeOutput(driver), {"/new"}));
}

TEST(HttpDriver, TooManyInFlightHoldInputBackUntilThereIsRoom) {
  FakeHttpHandler handler;
  http::SessionOptions options;
  options.max_in_flight = 2;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  Receive(driver, Get("/a") + Get("/b") + Get("/c"));
  ASSERT_EQ(handler.slots.size(), 2u);
  EXPECT_FALSE(driver.wants().read);
  EXPECT_FALSE(driver.wants().resume);
  handler.Answer(0);
  EXPECT_TRUE(driver.wants().resume);
  driver.Received(0);
  ASSERT_EQ(handler.slots.size(), 3u);
  handler.Answer(1);
  handler.Answer(2);
  EXPECT_TRUE(InOrder(TakeOutput(driver), {"/a", "/b", "/c"}));
}

TEST(HttpDriver, DrainingFinishesTheRequestThatIsHalfHereAndSaysThatItIsTheLast) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  Receive(driver, "GET /half HT");
  driver.Drain();
  EXPECT_FALSE(driver.wants().close);
  EXPECT_TRUE(driver.wants().read);
  Receive(driver, "TP/1.1\r\nHost: x\r\n\r\n" + Get("/next"));
  ASSERT_EQ(handler.slots.size(), 1u);
  handler.Answer(0);
  const std::string output = TakeOutput(driver);
  EXPECT_TRUE(InOrder(output, {"/half"}));
  EXPECT_NE(output.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(driver.wants().close);
}

TEST(HttpDriver, DrainingAnIdleConnectionClosesIt) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  driver.Drain();
  EXPECT_TRUE(driver.wants().close);
}

TEST(HttpDriver, AHalfSentRequestTimesOutWithAnAnswerAndIdlenessWithoutOne) {
  FakeHttpHandler handler;
  const http::SessionOptions options;
  HttpDriver driver(options, handler);
  FakeWire wire;
  driver.Open(wire);
  Receive(driver, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{");
  EXPECT_EQ(driver.wants().stage, net::Stage::kBody);
  driver.TimedOut(net::Stage::kBody);
  EXPECT_NE(TakeOutput(driver).find(" 408 "), std::string::npos);
  EXPECT_TRUE(driver.wants().close);
  driver.Close();
  driver.Open(wire);
  driver.TimedOut(net::Stage::kIdle);
  EXPECT_TRUE(driver.Output().empty());
  EXPECT_TRUE(driver.wants().close);
}

class RespDriverTest : public testing::Test {
 protected:
  FakeRespHandler handler_;
  resp::SessionOptions options_;
  std::atomic<uint64_t> last_id_{0};
  FakeWire wire_;
};

TEST_F(RespDriverTest, APipelineIsFlushedOnceAndAnsweredInOrderWheneverTheAnswersCome) {
  RespDriver driver(options_, handler_, last_id_);
  driver.Open(wire_);
  EXPECT_EQ(last_id_, 1u);
  Receive(driver, Throttle("a") + "PING\r\n" + Throttle("b") + "PI");
  EXPECT_EQ(handler_.flushes, 1);
  ASSERT_EQ(handler_.slots.size(), 2u);
  EXPECT_EQ(driver.wants().stage, net::Stage::kReply);
  EXPECT_EQ(driver.wants().progress, 3u);
  EXPECT_TRUE(handler_.Answer(1));
  EXPECT_TRUE(driver.Output().empty());
  EXPECT_TRUE(handler_.Answer(0));
  EXPECT_EQ(wire_.ready, 2);
  EXPECT_EQ(TakeOutput(driver), "+a\r\n+PONG\r\n+b\r\n");
  EXPECT_EQ(driver.wants().stage, net::Stage::kHead);
  Receive(driver, "NG\r\n");
  EXPECT_EQ(TakeOutput(driver), "+PONG\r\n");
  EXPECT_EQ(driver.wants().stage, net::Stage::kIdle);
}

TEST_F(RespDriverTest, AnAnswerAfterTheConnectionClosedReachesNobody) {
  RespDriver driver(options_, handler_, last_id_);
  driver.Open(wire_);
  Receive(driver, Throttle("old"));
  driver.Close();
  driver.Open(wire_);
  Receive(driver, Throttle("new"));
  EXPECT_FALSE(handler_.Answer(0));
  EXPECT_TRUE(handler_.Answer(1));
  EXPECT_EQ(TakeOutput(driver), "+new\r\n");
}

TEST_F(RespDriverTest, TooManyInFlightHoldInputBackUntilThereIsRoom) {
  options_.max_in_flight = 2;
  RespDriver driver(options_, handler_, last_id_);
  driver.Open(wire_);
  Receive(driver, Throttle("a") + Throttle("b") + Throttle("c") + "PING\r\n");
  ASSERT_EQ(handler_.slots.size(), 2u);
  EXPECT_FALSE(driver.wants().read);
  EXPECT_FALSE(driver.wants().resume);
  handler_.Answer(0);
  EXPECT_TRUE(driver.wants().resume);
  driver.Received(0);
  ASSERT_EQ(handler_.slots.size(), 3u);
  handler_.Answer(1);
  handler_.Answer(2);
  driver.Received(0);
  EXPECT_EQ(TakeOutput(driver), "+a\r\n+b\r\n+c\r\n+PONG\r\n");
}

TEST_F(RespDriverTest, DrainingFinishesTheCommandThatIsHalfHere) {
  RespDriver driver(options_, handler_, last_id_);
  driver.Open(wire_);
  Receive(driver, "CL.THROTTLE ha");
  driver.Drain();
  EXPECT_FALSE(driver.wants().close);
  EXPECT_TRUE(driver.wants().read);
  Receive(driver, "lf 1 1 1\r\n");
  ASSERT_EQ(handler_.slots.size(), 1u);
  EXPECT_FALSE(driver.wants().close);
  handler_.Answer(0);
  EXPECT_EQ(TakeOutput(driver), "+half\r\n");
  EXPECT_TRUE(driver.wants().close);
}

TEST_F(RespDriverTest, ThePeersEndEndsACommandThatWaitsInAQueue) {
  RespDriver driver(options_, handler_, last_id_);
  driver.Open(wire_);
  handler_.waits = true;
  Receive(driver, Throttle("a"));
  driver.ReceivedEnd();
  EXPECT_EQ(handler_.closed, 1);
  EXPECT_TRUE(driver.wants().close);
  EXPECT_FALSE(handler_.Answer(0));
}

TEST_F(RespDriverTest, ATimeOutClosesWithoutAWord) {
  RespDriver driver(options_, handler_, last_id_);
  driver.Open(wire_);
  Receive(driver, "*1\r\n$4\r\nPI");
  EXPECT_EQ(driver.wants().stage, net::Stage::kHead);
  driver.TimedOut(net::Stage::kHead);
  EXPECT_TRUE(driver.Output().empty());
  EXPECT_TRUE(driver.wants().close);
}

}  // namespace
}  // namespace penstock::server
