#include "resp/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "base/random.h"

namespace penstock::resp {
namespace {

constexpr std::string_view kThrottle = "CL.THROTTLE k 15 30 60\r\n";

void Receive(Session& session, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> space = session.ReceiveSpace();
    const size_t size = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), size);
    session.Received(size);
    bytes.remove_prefix(size);
  }
}

std::string TakeOutput(Session& session) {
  std::string output(session.Output());
  session.Written(output.size());
  return output;
}

const Command* Next(Session& session, Action& action) {
  action = session.Next();
  return std::get_if<Command>(&action);
}

// The tickets of all commands there are.
std::vector<ReplyTicket> Tickets(Session& session) {
  std::vector<ReplyTicket> tickets;
  Action action;
  while (const Command* command = Next(session, action)) tickets.push_back(command->ticket);
  return tickets;
}

bool Say(Session& session, ReplyTicket ticket, std::string_view text) {
  return session.Answer(ticket, [&](Writer& writer) { writer.Simple(text); });
}

TEST(Session, HandsOutADecisionAndWritesItsAnswer) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "127.0.0.1:9");
  Receive(session, "*5\r\n$11\r\ncl.Throttle\r\n$1\r\nk\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n");
  Action action;
  const Command* command = Next(session, action);
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(command->id, CommandId::kThrottle);
  EXPECT_EQ(command->args.size(), 5u);
  EXPECT_EQ(command->args[1], "k");
  EXPECT_TRUE(session.Answer(command->ticket, [](Writer& writer) { writer.Integers({0, 16, 15, -1, 2}); }));
  EXPECT_EQ(TakeOutput(session), "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session.Next()));
}

TEST(Session, EveryDecisionCommandIsHandedOut) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  Receive(session,
          "PEN.CHECK api 1 user 42\r\nPEN.ACQUIRE k 5 30000\r\nPEN.RELEASE a b\r\nPEN.RENEW a "
          "1\r\nPEN.HOLDERS k\r\n");
  std::vector<CommandId> ids;
  Action action;
  while (const Command* command = Next(session, action)) ids.push_back(command->id);
  EXPECT_EQ(ids, (std::vector{CommandId::kCheck, CommandId::kAcquire, CommandId::kRelease, CommandId::kRenew,
                              CommandId::kHolders}));
}

TEST(Session, RepliesKeepTheOrderOfTheCommands) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  Receive(session, std::string(kThrottle) + "PING\r\n" + std::string(kThrottle) + "ECHO x\r\n");
  const auto tickets = Tickets(session);
  ASSERT_EQ(tickets.size(), 2u);
  EXPECT_EQ(session.Output(), "");
  EXPECT_TRUE(Say(session, tickets[1], "second"));
  EXPECT_EQ(session.Output(), "");
  EXPECT_GT(session.pending_bytes(), 0u);
  EXPECT_TRUE(Say(session, tickets[0], "first"));
  EXPECT_EQ(TakeOutput(session), "+first\r\n+PONG\r\n+second\r\n$1\r\nx\r\n");
  EXPECT_EQ(session.in_flight(), 0u);
  EXPECT_FALSE(Say(session, tickets[0], "again"));
}

TEST(Session, AnAnswerKeepsTheVersionItsCommandWasReadUnder) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  Receive(session, std::string(kThrottle) + "HELLO 3\r\n" + std::string(kThrottle) + "HELLO 2\r\n" +
                       std::string(kThrottle) + "HELLO 2\r\nHELLO 3\r\n" + std::string(kThrottle));
  const auto tickets = Tickets(session);
  ASSERT_EQ(tickets.size(), 4u);
  std::vector<Protocol> seen;
  for (const size_t i : {3u, 1u, 0u, 2u}) {
    session.Answer(tickets[i], [&](Writer& writer) {
      seen.push_back(writer.protocol());
      writer.Null();
    });
  }
  EXPECT_EQ(seen, (std::vector{Protocol::kResp3, Protocol::kResp3, Protocol::kResp2, Protocol::kResp2}));
  const std::string output = TakeOutput(session);
  EXPECT_TRUE(output.starts_with("$-1\r\n%7\r\n")) << output;
  EXPECT_TRUE(output.ends_with("_\r\n")) << output;
  Receive(session, kThrottle);
  session.Answer(Tickets(session).at(0),
                 [&](Writer& writer) { EXPECT_EQ(writer.protocol(), Protocol::kResp3); });
}

// A peer may change the version in every batch for ever: the changes that are over must neither stay nor count.
TEST(Session, ChangesOfTheVersionAreForgottenWhenTheyAreOver) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  for (int batch = 0; batch < 200; ++batch) {
    const bool to_resp3 = batch % 2 == 0;
    Receive(session,
            std::string(kThrottle) + (to_resp3 ? "HELLO 3\r\n" : "HELLO 2\r\n") + std::string(kThrottle));
    const auto tickets = Tickets(session);
    ASSERT_EQ(tickets.size(), 2u);
    const Protocol before = to_resp3 ? Protocol::kResp2 : Protocol::kResp3;
    const Protocol after = to_resp3 ? Protocol::kResp3 : Protocol::kResp2;
    session.Answer(tickets[1], [&](Writer& writer) {
      EXPECT_EQ(writer.protocol(), after);
      writer.Null();
    });
    session.Answer(tickets[0], [&](Writer& writer) {
      EXPECT_EQ(writer.protocol(), before);
      writer.Null();
    });
    EXPECT_LE(session.version_changes(), 1u);
    TakeOutput(session);
  }
}

TEST(Session, ALateAnswerOfAClosedConnectionFindsNobody) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  Receive(session, kThrottle);
  const ReplyTicket old = Tickets(session).at(0);
  session.Detach();
  EXPECT_TRUE(std::holds_alternative<Close>(session.Next()));
  EXPECT_FALSE(Say(session, old, "late"));
  session.Open(2, "");
  Receive(session, kThrottle);
  const ReplyTicket fresh = Tickets(session).at(0);
  EXPECT_FALSE(Say(session, old, "late"));
  EXPECT_TRUE(Say(session, fresh, "new"));
  EXPECT_EQ(TakeOutput(session), "+new\r\n");
}

TEST(Session, TooManyCommandsInFlightPauseReading) {
  SessionOptions options;
  options.max_in_flight = 3;
  Session session(options);
  session.Open(1, "");
  std::string pipeline;
  for (int i = 0; i < 5; ++i) pipeline += kThrottle;
  Receive(session, pipeline);
  const auto tickets = Tickets(session);
  ASSERT_EQ(tickets.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  EXPECT_TRUE(session.Blocked());
  for (const auto& ticket : tickets) Say(session, ticket, "x");
  EXPECT_FALSE(session.Blocked());
  EXPECT_EQ(Tickets(session).size(), 2u);
  EXPECT_TRUE(std::holds_alternative<NeedBytes>(session.Next()));
}

TEST(Session, APeerThatDoesNotReadIsReadNoMore) {
  SessionOptions options;
  options.max_pending_bytes = 100;
  Session session(options);
  session.Open(1, "");
  std::string pipeline;
  for (int i = 0; i < 40; ++i) pipeline += "PING\r\n";
  Receive(session, pipeline);
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  EXPECT_LT(session.Output().size(), 110u);
  size_t pongs = 0;
  for (int turn = 0; turn < 10; ++turn) {
    pongs += TakeOutput(session).size() / 7;
    session.Next();
  }
  EXPECT_EQ(pongs, 40u);
}

TEST(Session, EarlyRepliesCountAsPendingToo) {
  SessionOptions options;
  options.max_pending_bytes = 1'000;
  Session session(options);
  session.Open(1, "");
  std::string pipeline(kThrottle);
  for (int i = 0; i < 40; ++i) pipeline += "ECHO " + std::string(90, 'x') + "\r\n";
  Receive(session, pipeline);
  const auto tickets = Tickets(session);
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
  EXPECT_LT(session.pending_bytes(), 1'200u);
  Say(session, tickets.at(0), "x");
  EXPECT_GT(TakeOutput(session).size(), 1'000u);
  EXPECT_TRUE(std::holds_alternative<Paused>(session.Next()));
}

TEST(Session, OutputIsTakenInPieces) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  std::string expected;
  std::string got;
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const std::string text(1 + random.Below(1'000), 'a');
    Receive(session, "ECHO " + text + "\r\n");
    session.Next();
    expected += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    const size_t size = random.Below(session.Output().size());
    got += session.Output().substr(0, size);
    session.Written(size);
  }
  got += TakeOutput(session);
  EXPECT_EQ(got, expected);
}

TEST(Session, AProtocolErrorIsSaidAfterWhatIsOwedThenClosed) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  Receive(session, std::string(kThrottle) + "*x\r\nPING\r\n");
  Action action;
  const Command* command = Next(session, action);
  ASSERT_NE(command, nullptr);
  const ReplyTicket ticket = command->ticket;
  EXPECT_TRUE(std::holds_alternative<Close>(session.Next()));
  EXPECT_FALSE(session.Finished());
  Say(session, ticket, "x");
  EXPECT_FALSE(session.Finished());
  EXPECT_EQ(TakeOutput(session), "+x\r\n-ERR Protocol error: invalid multibulk length\r\n");
  EXPECT_TRUE(session.Finished());
}

TEST(Session, DrainingAnswersWhatWasHandedOutAndTakesNothingMore) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "127.0.0.1:9");
  Receive(session, kThrottle);
  const std::vector<ReplyTicket> tickets = Tickets(session);
  ASSERT_EQ(tickets.size(), 1u);
  EXPECT_FALSE(session.mid_command());
  Receive(session, "PING\r\nPI");
  EXPECT_TRUE(session.mid_command());
  session.Drain();
  EXPECT_TRUE(std::holds_alternative<Close>(session.Next()));
  EXPECT_FALSE(session.Finished());
  EXPECT_TRUE(Say(session, tickets[0], "ok"));
  EXPECT_EQ(TakeOutput(session), "+ok\r\n");
  EXPECT_TRUE(session.Finished());
  EXPECT_EQ(session.commands(), 1u);
}

TEST(Session, ABrowsersRequestIsClosedWithoutAWord) {
  const SessionOptions options;
  for (const std::string_view request :
       {"POST / HTTP/1.1\r\nCL.THROTTLE k 1 1 1\r\n", "GET / HTTP/1.1\r\nHost: x\r\nPING\r\n"}) {
    Session session(options);
    session.Open(1, "");
    Receive(session, request);
    EXPECT_TRUE(std::holds_alternative<Close>(session.Next()));
    EXPECT_EQ(TakeOutput(session).find("PONG"), std::string::npos);
    EXPECT_TRUE(session.Finished());
  }
}

TEST(Session, LargeCommandsComeThroughAndTheirMemoryIsGivenBack) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  const std::string text(200'000, 'x');
  std::string bytes;
  AppendCommand(bytes, {"ECHO", text});
  AppendCommand(bytes, {"PING"});
  for (size_t at = 0; at < bytes.size();) {
    const std::span<char> space = session.ReceiveSpace();
    ASSERT_GE(space.size(), ReceiveBuffer::kLeastSpace);
    const size_t size = std::min({space.size(), bytes.size() - at, size_t{1'500}});
    std::memcpy(space.data(), bytes.data() + at, size);
    session.Received(size);
    at += size;
    session.Next();
  }
  const std::string output = TakeOutput(session);
  EXPECT_EQ(output.size(), text.size() + 11 + 7);
  EXPECT_EQ(session.ReceiveSpace().size(), ReceiveBuffer::kReadBytes);
}

// The whole conversation, once whole and once in pieces, with answers at random instants.
TEST(Session, PiecesAndLateAnswersGiveTheSameConversation) {
  const char* given = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
  std::printf("PENSTOCK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  static constexpr std::string_view kLines[] = {"PING\r\n",
                                                "CL.THROTTLE a 1 2 3\r\n",
                                                "CL.THROTTLE b 1 2 3 4\r\n",
                                                "HELLO 3\r\n",
                                                "HELLO 2\r\n",
                                                "PEN.CHECK d 0\r\n",
                                                "CLIENT GETNAME\r\n",
                                                "NOPE 'a'\r\n",
                                                "*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n",
                                                "CL.THROTTLE\r\n"};
  SessionOptions options;
  options.max_in_flight = 8;
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (uint64_t i = random.Below(40); i > 0; --i) bytes += kLines[random.Below(std::size(kLines))];
    std::string conversations[2];
    for (const bool whole : {true, false}) {
      Session session(options);
      session.Open(7, "");
      std::deque<std::pair<ReplyTicket, std::string>> owed;
      std::string& got = conversations[whole ? 0 : 1];
      const auto answer = [&](size_t i) {
        const auto [ticket, text] = owed[i];
        owed.erase(owed.begin() + static_cast<std::ptrdiff_t>(i));
        ASSERT_TRUE(session.Answer(ticket, [&text = text](Writer& writer) {
          writer.Array(2);
          writer.Bulk(text);
          writer.Null();
        }));
      };
      for (size_t at = 0; at < bytes.size();) {
        const size_t size = whole ? bytes.size() : std::min(bytes.size() - at, 1 + random.Below(30));
        Receive(session, std::string_view(bytes).substr(at, size));
        at += size;
        for (;;) {
          Action action;
          while (const Command* command = Next(session, action)) {
            owed.emplace_back(command->ticket, command->args[1]);
            if (!whole && random.Below(3) == 0) answer(random.Below(owed.size()));
          }
          if (!std::holds_alternative<Paused>(action)) break;
          answer(whole ? 0 : random.Below(owed.size()));
        }
        got += TakeOutput(session);
      }
      while (!owed.empty()) answer(whole ? 0 : random.Below(owed.size()));
      got += TakeOutput(session);
      ASSERT_EQ(session.in_flight(), 0u);
    }
    ASSERT_EQ(conversations[0], conversations[1]);
  }
}

}  // namespace
}  // namespace penstock::resp
