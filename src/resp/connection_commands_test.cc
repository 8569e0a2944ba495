#include "resp/connection_commands.h"

#include <gtest/gtest.h>

#include <cstring>

#include "resp/reply_parser.h"
#include "resp/session.h"

namespace penstock::resp {
namespace {

// A session that is talked to in inline commands.
class Talker {
 public:
  explicit Talker(SessionOptions options = {}) : options_(std::move(options)), session_(options_) {
    session_.Open(7, "127.0.0.1:50000");
  }

  std::string operator()(std::string_view line) {
    const std::string bytes = std::string(line) + "\r\n";
    std::memcpy(session_.ReceiveSpace().data(), bytes.data(), bytes.size());
    session_.Received(bytes.size());
    action_ = session_.Next();
    std::string output(session_.Output());
    session_.Written(output.size());
    return output;
  }
  bool closing() const { return std::holds_alternative<Close>(action_); }
  bool decides() const { return std::holds_alternative<Command>(action_); }
  const ConnectionState& state() const { return session_.state(); }

 private:
  const SessionOptions options_;
  Session session_;
  Action action_;
};

SessionOptions WithToken() {
  SessionOptions options;
  options.token = "open sesame";
  return options;
}

constexpr std::string_view kNoAuth = "-NOAUTH Authentication required.\r\n";
constexpr std::string_view kWrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

TEST(Connection, PingEchoSelect) {
  Talker talk;
  EXPECT_EQ(talk("PING"), "+PONG\r\n");
  EXPECT_EQ(talk("ping hi"), "$2\r\nhi\r\n");
  EXPECT_EQ(talk("PING a b"), "-ERR wrong number of arguments for 'ping' command\r\n");
  EXPECT_EQ(talk("ECHO \"a\\r\\n\""), "$3\r\na\r\n\r\n");
  EXPECT_EQ(talk("SELECT 0"), "+OK\r\n");
  EXPECT_EQ(talk("SELECT 1"), "-ERR DB index is out of range\r\n");
  EXPECT_EQ(talk("SELECT x"), "-ERR value is not an integer or out of range\r\n");
}

TEST(Connection, HelloInBothVersions) {
  SessionOptions options;
  options.version = "1.2.3";
  Talker talk(options);
  EXPECT_EQ(talk("HELLO"),
            "*14\r\n$6\r\nserver\r\n$8\r\npenstock\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:2\r\n$"
            "2\r\nid\r\n:7\r\n"
            "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
  EXPECT_EQ(talk("HELLO 3"),
            "%7\r\n$6\r\nserver\r\n$8\r\npenstock\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:3\r\n$"
            "2\r\nid\r\n:7\r\n"
            "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
  EXPECT_EQ(talk("CLIENT GETNAME"), "_\r\n");
  EXPECT_TRUE(talk("HELLO 2 SETNAME me").starts_with("*14\r\n"));
  EXPECT_EQ(talk("CLIENT GETNAME"), "$2\r\nme\r\n");
}

TEST(Connection, HelloRefusesWhatItDoesNotKnow) {
  Talker talk;
  EXPECT_EQ(talk("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(talk("HELLO 1"), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(talk("HELLO x"), "-ERR Protocol version is not an integer or out of range\r\n");
  EXPECT_EQ(talk("HELLO 3 NOPE"), "-ERR Syntax error in HELLO option 'NOPE'\r\n");
  EXPECT_EQ(talk("HELLO 3 AUTH a"), "-ERR Syntax error in HELLO option 'AUTH'\r\n");
  EXPECT_EQ(talk("HELLO 3 SETNAME"), "-ERR Syntax error in HELLO option 'SETNAME'\r\n");
  EXPECT_TRUE(talk("HELLO 3 SETNAME 'a b'").starts_with("-ERR Client names"));
  EXPECT_EQ(talk.state().protocol, Protocol::kResp2);
}

TEST(Connection, WithoutTheTokenNothingIsTold) {
  Talker talk(WithToken());
  for (const std::string_view line :
       {"PING", "CL.THROTTLE k 1 1 1", "CL.THROTTLE", "PEN.CHECK d 0", "NOPE", "CLIENT ID", "COMMAND",
        "CONFIG GET save", "INFO", "ECHO x", "SELECT 0"}) {
    EXPECT_EQ(talk(line), kNoAuth) << line;
    EXPECT_FALSE(talk.decides());
  }
  EXPECT_TRUE(talk("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
  EXPECT_EQ(talk.state().protocol, Protocol::kResp2);
  EXPECT_EQ(talk("RESET"), "+RESET\r\n");
  EXPECT_EQ(talk("PING"), kNoAuth);
}

TEST(Connection, AuthComparesTheToken) {
  Talker talk(WithToken());
  EXPECT_EQ(talk("AUTH wrong"), kWrongPass);
  EXPECT_EQ(talk("AUTH 'open sesam'"), kWrongPass);
  EXPECT_EQ(talk("AUTH default ''"), kWrongPass);
  EXPECT_EQ(talk("AUTH"), "-ERR wrong number of arguments for 'auth' command\r\n");
  EXPECT_EQ(talk("PING"), kNoAuth);
  EXPECT_EQ(talk("AUTH 'open sesame'"), "+OK\r\n");
  EXPECT_EQ(talk("PING"), "+PONG\r\n");
  EXPECT_EQ(talk("AUTH default wrong"), kWrongPass);
  EXPECT_EQ(talk("PING"), "+PONG\r\n");  // as in Redis, a failed AUTH takes nothing away
  EXPECT_EQ(talk("RESET"), "+RESET\r\n");
  EXPECT_EQ(talk("PING"), kNoAuth);
  EXPECT_EQ(talk("AUTH anyone 'open sesame'"), "+OK\r\n");
}

TEST(Connection, HelloMayAuthenticate) {
  Talker talk(WithToken());
  EXPECT_EQ(talk("HELLO 3 AUTH default wrong"), kWrongPass);
  EXPECT_EQ(talk.state().protocol, Protocol::kResp2);
  EXPECT_TRUE(talk("HELLO 3 AUTH default 'open sesame' SETNAME me").starts_with("%7\r\n"));
  EXPECT_EQ(talk("CLIENT GETNAME"), "$2\r\nme\r\n");
}

TEST(Connection, BeforeAuthTheBoundsAreStricter) {
  Talker talk(WithToken());
  EXPECT_EQ(talk("*11"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
  EXPECT_TRUE(talk.closing());
  Talker other(WithToken());
  EXPECT_EQ(other("*2\r\n$4\r\nAUTH\r\n$20000"), "-ERR Protocol error: unauthenticated bulk length\r\n");
  Talker known(WithToken());
  EXPECT_EQ(known("AUTH 'open sesame'"), "+OK\r\n");
  EXPECT_EQ(known("*11"), "");
}

TEST(Connection, WithoutATokenAuthSaysSo) {
  Talker talk;
  EXPECT_TRUE(talk("AUTH x").starts_with("-ERR AUTH <password> called without any password configured"));
  EXPECT_EQ(talk("AUTH default x"), "+OK\r\n");
  EXPECT_TRUE(talk("HELLO 3 AUTH default x").starts_with("%7\r\n"));
}

TEST(Connection, ClientTellsAndSets) {
  Talker talk;
  EXPECT_EQ(talk("CLIENT ID"), ":7\r\n");
  EXPECT_EQ(talk("CLIENT GETNAME"), "$-1\r\n");
  EXPECT_EQ(talk("CLIENT SETNAME worker-1"), "+OK\r\n");
  EXPECT_TRUE(talk("CLIENT SETNAME 'a b'").starts_with("-ERR Client names cannot contain"));
  EXPECT_EQ(talk("client setinfo LIB-NAME redis-py"), "+OK\r\n");
  EXPECT_EQ(talk("CLIENT SETINFO lib-ver 8.0.0"), "+OK\r\n");
  EXPECT_EQ(talk("CLIENT SETINFO lib-x 8"), "-ERR Unrecognized option 'lib-x'\r\n");
  EXPECT_TRUE(talk("CLIENT SETINFO lib-name 'a b'").starts_with("-ERR lib-name cannot contain"));
  const std::string list = talk("CLIENT LIST");
  EXPECT_NE(list.find("id=7 addr=127.0.0.1:50000 name=worker-1 "), std::string::npos) << list;
  EXPECT_NE(list.find("lib-name=redis-py lib-ver=8.0.0\n"), std::string::npos) << list;
  EXPECT_EQ(talk("CLIENT INFO"), list);
  EXPECT_EQ(talk("CLIENT NO-EVICT on"), "+OK\r\n");
  EXPECT_EQ(talk("CLIENT NO-TOUCH off"), "+OK\r\n");
  EXPECT_EQ(talk("CLIENT REPLY ON"), "+OK\r\n");
  EXPECT_EQ(talk("CLIENT TRACKING OFF"), "+OK\r\n");
  EXPECT_EQ(talk("CLIENT MAINT_NOTIFICATIONS ON"),
            "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n");
  EXPECT_EQ(talk("CLIENT"), "-ERR wrong number of arguments for 'client' command\r\n");
}

TEST(Connection, ConfigAnswersWhatBenchmarksAsk) {
  Talker talk;
  EXPECT_EQ(talk("CONFIG GET save"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(talk("CONFIG GET appendonly"), "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
  EXPECT_EQ(talk("CONFIG GET nothing"), "*0\r\n");
  EXPECT_TRUE(talk("CONFIG GET *").starts_with("*6\r\n"));
  EXPECT_EQ(talk("CONFIG GET"), "-ERR wrong number of arguments for 'config|get' command\r\n");
  EXPECT_EQ(talk("CONFIG SET save x"), "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n");
}

TEST(Connection, InfoSaysThatItIsLoadedAndWhatItIs) {
  SessionOptions options;
  options.version = "1.2.3";
  options.append_info = [](std::string& text) { text += "keys:5\r\n"; };
  Talker talk(options);
  for (const std::string_view line : {"INFO", "INFO server"}) {
    const std::string info = talk(line);
    for (const std::string_view part :
         {"redis_version:7.", "penstock_version:1.2.3\r\n", "loading:0\r\n", "keys:5\r\n", "role:master"}) {
      EXPECT_NE(info.find(part), std::string::npos) << part;
    }
  }
}

TEST(Connection, QuitAndResetEndAndBeginAgain) {
  Talker talk;
  talk("HELLO 3 SETNAME me");
  EXPECT_EQ(talk("RESET"), "+RESET\r\n");
  EXPECT_EQ(talk("CLIENT GETNAME"), "$-1\r\n");
  EXPECT_EQ(talk("QUIT"), "+OK\r\n");
  EXPECT_TRUE(talk.closing());
}

TEST(Connection, UnknownCommandsAreNamedAndCut) {
  Talker talk;
  EXPECT_EQ(talk("FOO"), "-ERR unknown command 'FOO', with args beginning with: \r\n");
  EXPECT_EQ(talk("GET 'a\\'b' \"c\\r\\nd\""),
            "-ERR unknown command 'GET', with args beginning with: 'a'b' 'c  d' \r\n");
  const std::string longest = talk(std::string(5'000, 'x') + " " + std::string(300, 'y') + " z z z");
  EXPECT_LT(longest.size(), 350u);
}

TEST(Connection, DecisionCommandsNeedTheirNumberOfArguments) {
  Talker talk;
  for (const auto& [line, name] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"CL.THROTTLE k 1 1", "cl.throttle"},
           {"CL.THROTTLE k 1 1 1 1 1", "cl.throttle"},
           {"PEN.CHECK d", "pen.check"},
           {"PEN.ACQUIRE k 1", "pen.acquire"},
           {"PEN.RELEASE", "pen.release"},
           {"PEN.RENEW id", "pen.renew"},
           {"PEN.HOLDERS", "pen.holders"}}) {
    EXPECT_EQ(talk(line), "-ERR wrong number of arguments for '" + std::string(name) + "' command\r\n");
    EXPECT_FALSE(talk.decides());
  }
}

// Reads a reply and hands out its nodes.
std::vector<ReplyNode> Nodes(ReplyParser& parser, std::string_view reply) {
  const ParseResult result = parser.Parse(reply);
  EXPECT_EQ(result.status, ParseStatus::kDone) << parser.error();
  EXPECT_EQ(result.consumed, reply.size());
  return {parser.nodes().begin(), parser.nodes().end()};
}

TEST(Connection, CommandDescribesEveryCommandInBothVersions) {
  for (const std::string_view hello : {"HELLO 2", "HELLO 3"}) {
    Talker talk;
    talk(hello);
    const uint32_t count = static_cast<uint32_t>(AllCommands().size());
    const bool maps = hello == "HELLO 3";
    ReplyParser parser;
    const std::string infos = talk("COMMAND");
    const auto info = Nodes(parser, infos);
    EXPECT_EQ(info[0].children, count);
    EXPECT_EQ(info[1].children, 10u);
    EXPECT_EQ(info[2].text, "cl.throttle");
    EXPECT_EQ(info[3].integer, -5);
    EXPECT_EQ(talk("COMMAND INFO"), infos);
    EXPECT_EQ(talk("COMMAND COUNT"), ":" + std::to_string(count) + "\r\n");
    const std::string list = talk("COMMAND LIST");
    EXPECT_EQ(Nodes(parser, list)[0].children, count);
    const std::string docs = talk("COMMAND DOCS");
    const auto doc = Nodes(parser, docs);
    EXPECT_EQ(doc[0].type, maps ? ReplyType::kMap : ReplyType::kArray);
    EXPECT_EQ(doc[0].children, 2 * count);
    EXPECT_EQ(doc[2].type, maps ? ReplyType::kMap : ReplyType::kArray);
    const std::string one = talk("COMMAND DOCS ping nope");
    EXPECT_EQ(Nodes(parser, one)[0].children, 2u);
    EXPECT_NE(one.find(maps ? "%3\r\n$4\r\nname\r\n$7\r\nmessage" : "*6\r\n$4\r\nname\r\n$7\r\nmessage"),
              std::string::npos)
        << one;
    const std::string two = talk("COMMAND INFO PEN.RENEW nope");
    const auto some = Nodes(parser, two);
    EXPECT_EQ(some[0].children, 2u);
    EXPECT_EQ(some[3].integer, 3);
    EXPECT_EQ(some.back().type, ReplyType::kNull);
    EXPECT_EQ(talk("COMMAND GETKEYS x"), "-ERR unknown subcommand 'GETKEYS'. Try COMMAND HELP.\r\n");
  }
}

}  // namespace
}  // namespace penstock::resp
