// The fixtures themselves: what a test does to a server is what the server then shows.
#include "redis/redis_server.h"

#include <gtest/gtest.h>

#include "redis/fixture_error.h"
#include "redis/users.h"

namespace penstock::fixtures {
namespace {

TEST(RedisServerTest, AnswersOnItsPortAndItsSocket) {
  RedisServer server;
  EXPECT_EQ(RedisClient::Tcp(server.port()).Call("SET", "k", 17).text, "OK");
  EXPECT_EQ(server.Connect().Call("GET", "k").text, "17");
}

TEST(RedisServerTest, TakesConfigurationLines) {
  RedisServer server({"maxmemory 7mb", "requirepass secret"});
  RedisClient client = server.Connect();
  EXPECT_TRUE(client.Call("GET", "k").is_error());
  EXPECT_EQ(client.Call("AUTH", "secret").text, "OK");
  EXPECT_EQ(client.Call("CONFIG", "GET", "maxmemory")[1].text, "7340032");
}

TEST(RedisServerTest, ANodesConnectionMayDoWhatTheDocumentationSaysAndNoMore) {
  RedisServer server;
  RedisClient node = server.ConnectAsNode();
  EXPECT_EQ(node.Call("SET", "pen:k", "v").text, "OK");
  EXPECT_EQ(node.Call("GET", "pen:k").text, "v");
  const auto refused = [](const ReplyValue& reply) { return reply.text.starts_with("NOPERM"); };
  EXPECT_TRUE(refused(node.Call("GET", "k")));
  EXPECT_TRUE(refused(node.Call("KEYS", "*")));
  EXPECT_TRUE(refused(node.Call("TYPE", "pen:k")));
  EXPECT_TRUE(refused(node.Call("INCR", "pen:n")));
  EXPECT_TRUE(refused(node.Call("EVAL", "return 1", 0)));
  EXPECT_TRUE(refused(node.Call("CONFIG", "SET", "maxmemory", 0)));
  EXPECT_TRUE(refused(node.Call("FLUSHALL")));
}

TEST(RedisServerTest, AUserThatMayDoMoreIsNotTakenForANode) {
  RedisServer server;
  server.Connect().Must("ACL", "SETUSER", NodeUser().name, "+acl|whoami");
  EXPECT_THROW(server.ConnectAsNode(), FixtureError);
}

TEST(RedisServerTest, TwoServersShareNothing) {
  RedisServer one;
  RedisServer two;
  EXPECT_NE(one.port(), two.port());
  one.Connect().Must("SET", "k", "one");
  EXPECT_TRUE(two.Connect().Call("GET", "k").is_null());
}

TEST(RedisServerTest, RestartsWithItsDataOrEmpty) {
  RedisServer server;
  server.Connect().Must("SET", "k", "v");
  server.Restart(Keep::kData);
  EXPECT_EQ(server.Connect().Call("GET", "k").text, "v");
  server.Restart(Keep::kNothing);
  EXPECT_TRUE(server.Connect().Call("GET", "k").is_null());
}

TEST(RedisServerTest, StoppedAndKilledServersRefuseConnections) {
  RedisServer server;
  RedisClient before = server.Connect();
  server.Stop();
  EXPECT_FALSE(server.running());
  EXPECT_THROW(RedisClient::Tcp(server.port()), FixtureError);
  EXPECT_THROW(before.Call("PING"), FixtureError);
  server.Start();
  EXPECT_EQ(RedisClient::Tcp(server.port()).Call("PING").text, "PONG");
  server.Kill();
  EXPECT_THROW(server.Connect(), FixtureError);
}

TEST(RedisServerTest, AFrozenServerTakesCommandsAndAnswersWhenItThaws) {
  RedisServer server;
  RedisClient patient = server.Connect();
  RedisClient brief = RedisClient::Unix(server.path(), std::chrono::milliseconds(50));
  server.Freeze();
  EXPECT_THROW(brief.Call("INCR", "n"), FixtureError);
  patient.Send(Command(std::vector<std::string>{"INCR", "n"}));
  server.Thaw();
  EXPECT_FALSE(patient.Receive().is_error());
  EXPECT_EQ(patient.Call("GET", "n").text, "2");  // the first had been sent before its client gave up
}

TEST(RedisServerTest, AStoppedServerThatWasFrozenEnds) {
  RedisServer server;
  server.Freeze();
  server.Stop();
  EXPECT_FALSE(server.running());
}

TEST(RedisServerTest, RepliesOfManyCommandsComeInOrder) {
  RedisServer server;
  RedisClient client = server.Connect();
  constexpr int kCommands = 5'000;
  std::string bytes;
  for (int i = 0; i < kCommands; ++i) bytes += Command(std::vector<std::string>{"INCR", "n"});
  client.Send(bytes);
  for (int i = 1; i <= kCommands; ++i) ASSERT_EQ(client.Receive().integer, i);
  EXPECT_EQ(client.Call("EVAL", "return {1, {'a', false}, 'b'}", 0).Text(), "[1, [a, nil], b]");
}

TEST(RedisServerTest, ALineThatTheServerDoesNotKnowIsAnErrorWithItsLog) {
  try {
    const RedisServer server({"no-such-directive yes"});
    FAIL() << "it started";
  } catch (const FixtureError& error) {
    EXPECT_NE(std::string(error.what()).find("no-such-directive"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace penstock::fixtures
