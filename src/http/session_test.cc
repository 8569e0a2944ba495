#include "http/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "http/response_parser.h"

namespace penstock::http {
namespace {

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

std::string Get(std::string_view target, std::string_view more = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n" + std::string(more) + "\r\n";
}

void Give(Session& session, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> space = session.ReceiveSpace();
    const size_t count = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), count);
    session.Received(count);
    bytes.remove_prefix(count);
  }
}

void Text(Session& session, ReplyTicket ticket, std::string_view text) {
  session.Answer(ticket, [&](std::string& out, const ReplyShape& shape) {
    ResponseWriter(out, shape, 200).Body("text/plain", text);
  });
}

// The next request must be there.
Incoming Take(Session& session) {
  const Action action = session.Next();
  EXPECT_TRUE(std::holds_alternative<Incoming>(action));
  return std::holds_alternative<Incoming>(action) ? std::get<Incoming>(action) : Incoming{};
}

std::string Sent(Session& session) {
  std::string out(session.Output());
  session.Written(out.size());
  return out;
}

// Statuses and bodies of what was sent.
std::vector<std::string> Responses(std::string_view bytes) {
  std::vector<std::string> out;
  ResponseParser parser;
  for (;;) {
    const auto step = parser.Parse(bytes);
    if (step.status != ResponseParser::Status::kResponse) break;
    out.push_back(std::to_string(parser.response().status) +
                  (parser.response().keep_alive ? " " : " close ") + std::string(parser.response().body));
    bytes.remove_prefix(step.consumed);
  }
  EXPECT_EQ(bytes, "");
  return out;
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() { session_.Open(); }

  SessionOptions options_;
  Session session_{options_};
};

TEST(Session, EveryAnswerHasTheDateOfItsMoment) {
  std::string date = "Sun, 06 Nov 1994 08:49:37 GMT";
  SessionOptions options;
  options.date = &date;
  Session session(options);
  session.Open();
  Give(session, Get("/") + "nonsense\r\n");
  const ReplyTicket ticket = Take(session).ticket;
  date = "Sun, 06 Nov 1994 08:49:38 GMT";
  Text(session, ticket, "ok");
  EXPECT_TRUE(std::holds_alternative<Close>(session.Next()));
  const std::string sent = Sent(session);
  const size_t refusal = sent.find("HTTP/1.1 400");
  ASSERT_NE(refusal, std::string::npos) << sent;
  EXPECT_LT(sent.find("Date: " + date), refusal) << sent;
  EXPECT_NE(sent.find("Date: " + date, refusal), std::string::npos) << sent;
}

TEST_F(SessionTest, AnswersInlineAndAsksForMore) {
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
  Give(session_, Get("/a") + Get("/b"));
  const Incoming a = Take(session_);
  EXPECT_EQ(a.request->path, "/a");
  Text(session_, a.ticket, "A");
  const Incoming b = Take(session_);
  EXPECT_EQ(b.request->path, "/b");
  Text(session_, b.ticket, "B");
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
  EXPECT_EQ(Responses(Sent(session_)), (std::vector<std::string>{"200 A", "200 B"}));
  EXPECT_FALSE(session_.Finished());
}

TEST_F(SessionTest, LateAnswersLeaveInTheOrderOfTheRequests) {
  Give(session_, Get("/a") + Get("/b") + Get("/c"));
  const ReplyTicket a = Take(session_).ticket;
  const ReplyTicket b = Take(session_).ticket;
  const ReplyTicket c = Take(session_).ticket;
  EXPECT_EQ(session_.in_flight(), 3u);
  Text(session_, c, "C");
  Text(session_, a, "A");
  EXPECT_EQ(Responses(session_.Output()), (std::vector<std::string>{"200 A"}));
  EXPECT_GT(session_.pending_bytes(), session_.Output().size());
  Text(session_, b, "B");
  EXPECT_EQ(Responses(Sent(session_)), (std::vector<std::string>{"200 A", "200 B", "200 C"}));
  EXPECT_EQ(session_.pending_bytes(), 0u);
}

TEST_F(SessionTest, ALateAnswerToAClosedConnectionIsHarmless) {
  Give(session_, kGet);
  const ReplyTicket old = Take(session_).ticket;
  session_.Detach();
  const auto never = [](std::string&, const ReplyShape&) { FAIL(); };
  EXPECT_FALSE(session_.Answer(old, never));
  session_.Open();
  Give(session_, kGet);
  const ReplyTicket fresh = Take(session_).ticket;
  EXPECT_FALSE(session_.Answer(old, never));
  Text(session_, fresh, "new");
  EXPECT_FALSE(session_.Answer(fresh, never));
  EXPECT_EQ(Responses(Sent(session_)), (std::vector<std::string>{"200 new"}));
}

TEST_F(SessionTest, CloseIsSaidInTheLastAnswerAndNothingIsTakenAfterIt) {
  Give(session_, Get("/a") + Get("/b", "Connection: close\r\n") + Get("/c"));
  const ReplyTicket a = Take(session_).ticket;
  const ReplyTicket b = Take(session_).ticket;
  EXPECT_TRUE(std::holds_alternative<Close>(session_.Next()));
  EXPECT_FALSE(session_.Finished());
  Text(session_, b, "B");
  Text(session_, a, "A");
  EXPECT_FALSE(session_.Finished());
  EXPECT_EQ(Responses(Sent(session_)), (std::vector<std::string>{"200 A", "200 close B"}));
  EXPECT_TRUE(session_.Finished());
}

TEST_F(SessionTest, Http10ClosesUnlessItAskedToStay) {
  Give(session_, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n");
  Text(session_, Take(session_).ticket, "A");
  Text(session_, Take(session_).ticket, "B");
  const std::string sent = Sent(session_);
  EXPECT_NE(sent.find("Connection: keep-alive\r\n"), std::string::npos);
  EXPECT_EQ(Responses(sent), (std::vector<std::string>{"200 A", "200 close B"}));
  EXPECT_TRUE(session_.Finished());
}

TEST_F(SessionTest, HeadIsAnsweredWithoutBody) {
  Give(session_, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + Get("/"));
  const ReplyTicket head = Take(session_).ticket;
  const ReplyTicket get = Take(session_).ticket;
  Text(session_, get, "body");
  Text(session_, head, "body");
  const std::string sent = Sent(session_);
  const std::string with_body = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n";
  EXPECT_EQ(sent, with_body + with_body + "body");
}

TEST_F(SessionTest, AnErrorIsAnsweredBehindWhatIsOwedThenTheConnectionCloses) {
  Give(session_, Get("/a") + "BAD\r\n\r\n" + Get("/b"));
  const ReplyTicket a = Take(session_).ticket;
  EXPECT_TRUE(std::holds_alternative<Close>(session_.Next()));
  EXPECT_TRUE(std::holds_alternative<Close>(session_.Next()));
  EXPECT_EQ(session_.Output(), "");
  Text(session_, a, "A");
  const auto responses = Responses(Sent(session_));
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[0], "200 A");
  EXPECT_TRUE(responses[1].starts_with("400 close {")) << responses[1];
  EXPECT_TRUE(session_.Finished());
}

TEST_F(SessionTest, EveryMistakeHasItsStatus) {
  const auto status = [&](const std::string& bytes) {
    session_.Open();
    Give(session_, bytes);
    EXPECT_TRUE(std::holds_alternative<Close>(session_.Next()));
    const std::string sent = Sent(session_);
    EXPECT_TRUE(session_.Finished());
    EXPECT_NE(sent.find("Connection: close\r\n"), std::string::npos);
    EXPECT_NE(sent.find("application/problem+json"), std::string::npos);
    return sent.substr(9, 3);
  };
  EXPECT_EQ(status("GET / HTTP/1.1\n"), "400");
  EXPECT_EQ(status(Get("/", "Content-Length: 2000000\r\n")), "413");
  EXPECT_EQ(status(Get("/" + std::string(20'000, 'a'))), "414");
  EXPECT_EQ(status(Get("/", "A: " + std::string(20'000, 'a') + "\r\n")), "431");
  EXPECT_EQ(status(Get("/", "Transfer-Encoding: gzip\r\n")), "501");
  EXPECT_EQ(status("GET / HTTP/3.0\r\n\r\n"), "505");
  EXPECT_EQ(status(Get("/", "Content-Length: 1\r\nExpect: tea\r\n")), "417");
}

TEST_F(SessionTest, ContinueIsSentWhenTheBodyIsAwaited) {
  Give(session_, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
  EXPECT_EQ(Sent(session_), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
  EXPECT_EQ(Sent(session_), "");
  Give(session_, "ok");
  const Incoming incoming = Take(session_);
  EXPECT_EQ(incoming.request->body, "ok");
  Text(session_, incoming.ticket, "A");
  EXPECT_EQ(Responses(Sent(session_)), (std::vector<std::string>{"200 A"}));
}

TEST_F(SessionTest, ContinueDoesNotOvertakeAnOlderAnswer) {
  Give(session_,
       Get("/") + "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  const ReplyTicket first = Take(session_).ticket;
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
  EXPECT_EQ(session_.Output(), "");
  Text(session_, first, "A");
  const std::string sent = Sent(session_);
  EXPECT_TRUE(sent.starts_with("HTTP/1.1 200 OK"));
  EXPECT_TRUE(sent.ends_with("AHTTP/1.1 100 Continue\r\n\r\n"));
}

TEST_F(SessionTest, PausesAtRequestsInFlightAndGoesOn) {
  options_.max_in_flight = 2;
  Session session(options_);
  session.Open();
  Give(session, Get("/a") + Get("/b") + Get("/c"));
  const ReplyTicket a = Take(session).ticket;
  Take(session);
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  EXPECT_EQ(session.phase(), Phase::kAnswering);
  Text(session, a, "A");
  EXPECT_EQ(Take(session).request->path, "/c");
}

TEST_F(SessionTest, PausesAtUnreadAnswersAndGoesOn) {
  options_.max_pending_bytes = 1'000;
  Session session(options_);
  session.Open();
  Give(session, Get("/a") + Get("/b") + Get("/c"));
  const ReplyTicket a = Take(session).ticket;
  const ReplyTicket b = Take(session).ticket;
  Text(session, b, std::string(1'000, 'x'));
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  Text(session, a, "A");
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  session.Written(session.Output().size() - 999);
  EXPECT_EQ(Take(session).request->path, "/c");
}

TEST_F(SessionTest, WhatWasReceivedBeforeTheEndIsAnswered) {
  options_.max_in_flight = 1;
  Session session(options_);
  session.Open();
  Give(session, Get("/a") + Get("/b") + "GET /half");
  session.PeerFinished();
  const ReplyTicket a = Take(session).ticket;
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  Text(session, a, "A");
  Text(session, Take(session).ticket, "B");
  EXPECT_TRUE(std::holds_alternative<Close>(session.Next()));
  EXPECT_EQ(Responses(Sent(session)), (std::vector<std::string>{"200 A", "200 B"}));
  EXPECT_TRUE(session.Finished());
}

TEST_F(SessionTest, DrainAnswersWhatIsOwedAndTakesNoMore) {
  EXPECT_FALSE(session_.Finished());
  Give(session_, Get("/a") + Get("/b") + Get("/c"));
  const ReplyTicket a = Take(session_).ticket;
  const ReplyTicket b = Take(session_).ticket;
  session_.Drain();
  EXPECT_TRUE(std::holds_alternative<Close>(session_.Next()));
  EXPECT_FALSE(session_.Finished());
  Text(session_, a, "A");
  Text(session_, b, "B");
  EXPECT_EQ(Responses(Sent(session_)), (std::vector<std::string>{"200 A", "200 close B"}));
  EXPECT_TRUE(session_.Finished());
  session_.Open();
  session_.Drain();
  EXPECT_TRUE(session_.Finished());
}

TEST_F(SessionTest, RefuseEndsASlowPeerOnce) {
  Give(session_, "GET / HTT");
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
  session_.Refuse(408, "the head took too long");
  session_.Refuse(408, "the head took too long");
  const auto responses = Responses(Sent(session_));
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_TRUE(responses[0].starts_with("408 close {"));
  EXPECT_TRUE(session_.Finished());
}

TEST_F(SessionTest, PhaseSaysWhatIsWaitedFor) {
  EXPECT_EQ(session_.phase(), Phase::kIdle);
  Give(session_, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n");
  session_.Next();
  EXPECT_EQ(session_.phase(), Phase::kHead);
  Give(session_, "\r\n");
  session_.Next();
  EXPECT_EQ(session_.phase(), Phase::kBody);
  Give(session_, "ok");
  const ReplyTicket ticket = Take(session_).ticket;
  session_.Next();
  EXPECT_EQ(session_.phase(), Phase::kAnswering);
  Text(session_, ticket, "A");
  EXPECT_EQ(session_.phase(), Phase::kIdle);
  session_.Detach();
  EXPECT_EQ(session_.phase(), Phase::kClosing);
}

TEST_F(SessionTest, PartialWritesKeepTheirPlace) {
  std::string sent;
  for (int i = 0; i < 20; ++i) {
    Give(session_, kGet);
    Text(session_, Take(session_).ticket, std::string(30'000, static_cast<char>('a' + i)));
    const std::string_view output = session_.Output();
    sent += output.substr(0, output.size() / 2);
    session_.Written(output.size() / 2);
  }
  sent += Sent(session_);
  const auto responses = Responses(sent);
  ASSERT_EQ(responses.size(), 20u);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(responses[i], "200 " + std::string(30'000, static_cast<char>('a' + i)));
}

TEST_F(SessionTest, LargeBodiesArriveInPieces) {
  const std::string body(1'024 * 1'024, 'b');
  Give(session_, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  std::string_view rest = body;
  while (!rest.empty()) {
    EXPECT_TRUE(std::holds_alternative<NeedBytes>(session_.Next()));
    const size_t count = std::min<size_t>(rest.size(), 50'000);
    Give(session_, rest.substr(0, count));
    rest.remove_prefix(count);
  }
  EXPECT_EQ(Take(session_).request->body, body);
}

// Random pipelines, cut at random, answered late and out of order, written in pieces: the answers are those of an
// in-order server that gets everything at once.
TEST_F(SessionTest, HowBytesAndAnswersComeChangesNothing) {
  Random random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    std::vector<std::string> expected;
    const uint64_t count = 1 + random.Below(30);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string body(random.Below(200), static_cast<char>('a' + i % 26));
      bytes += "POST /" + std::to_string(i) +
               " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
      expected.push_back("200 /" + std::to_string(i) + body);
    }
    SessionOptions options;
    options.max_in_flight = static_cast<uint32_t>(1 + random.Below(12));
    options.max_pending_bytes = 500;
    Session session(options);
    session.Open();
    struct Owed {
      ReplyTicket ticket;
      std::string text;
    };
    std::deque<Owed> owed;
    std::string sent;
    std::string_view rest = bytes;
    while (session.phase() != Phase::kIdle || !rest.empty() || !session.Output().empty()) {
      for (;;) {
        const Action action = session.Next();
        if (std::holds_alternative<NeedBytes>(action)) {
          const size_t size = std::min<size_t>(rest.size(), 1 + random.Below(300));
          Give(session, rest.substr(0, size));
          rest.remove_prefix(size);
          if (size == 0) break;
        } else if (const auto* incoming = std::get_if<Incoming>(&action)) {
          owed.push_back({incoming->ticket,
                          std::string(incoming->request->path) + std::string(incoming->request->body)});
        } else {
          break;
        }
      }
      for (uint64_t answers = random.Below(owed.size() + 1); answers > 0; --answers) {
        const auto at = owed.begin() + static_cast<std::ptrdiff_t>(random.Below(owed.size()));
        Text(session, at->ticket, at->text);
        owed.erase(at);
      }
      const size_t written = std::min<size_t>(session.Output().size(), 400);
      sent += session.Output().substr(0, written);
      session.Written(written);
    }
    ASSERT_EQ(Responses(sent), expected);
    ASSERT_EQ(session.phase(), Phase::kIdle);
  }
}

}  // namespace
}  // namespace penstock::http
