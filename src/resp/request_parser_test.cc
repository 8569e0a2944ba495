#include "resp/request_parser.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/random.h"
#include "resp/writer.h"

namespace penstock::resp {
namespace {

using Args = std::vector<std::string>;

struct Heard {
  std::vector<Args> commands;
  std::string error;
  size_t left = 0;  // bytes not consumed
};

// Feeds `bytes` in pieces of the given sizes (the last size repeats); every call gets a fresh copy of the unread
// bytes, so a parser that kept a view into an earlier one would be caught by the address sanitizer.
Heard Feed(std::string_view bytes, const std::vector<size_t>& sizes, const Limits& limits = {}) {
  Heard heard;
  RequestParser parser;
  std::string unread;
  for (size_t at = 0, turn = 0; at < bytes.size(); ++turn) {
    const size_t size = std::min(bytes.size() - at, sizes[std::min(turn, sizes.size() - 1)]);
    unread += bytes.substr(at, size);
    at += size;
    for (;;) {
      std::vector<char> copy(unread.begin(), unread.end());
      const ParseResult result = parser.Parse(copy, limits);
      if (result.status == ParseStatus::kDone) {
        heard.commands.emplace_back(parser.args().begin(), parser.args().end());
      }
      unread.erase(0, result.consumed);
      if (result.status == ParseStatus::kError) {
        heard.error = parser.error();
        heard.left = unread.size();
        return heard;
      }
      if (result.status == ParseStatus::kNeedMore) break;
    }
  }
  heard.left = unread.size();
  return heard;
}

Heard Whole(std::string_view bytes, const Limits& limits = {}) {
  return Feed(bytes, {std::max<size_t>(1, bytes.size())}, limits);
}

// The error of a stream; also checks that feeding it byte by byte finds the same one after the same commands.
std::string ErrorOf(std::string_view bytes, const Limits& limits = {}) {
  const Heard whole = Whole(bytes, limits);
  const Heard bytewise = Feed(bytes, {1}, limits);
  EXPECT_EQ(whole.error, bytewise.error) << bytes;
  EXPECT_EQ(whole.commands, bytewise.commands) << bytes;
  return whole.error;
}

TEST(RequestParser, ReadsAPipelineOfMultibulks) {
  const Heard heard = Whole("*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n*1\r\n$4\r\nPING\r\n*1\r\n$0\r\n\r\n");
  EXPECT_EQ(heard.commands, (std::vector<Args>{{"ECHO", "a\r\n"}, {"PING"}, {""}}));
  EXPECT_EQ(heard.left, 0u);
}

TEST(RequestParser, ArgumentsAreViewsIntoTheBuffer) {
  std::string bytes = "*2\r\n$4\r\nECHO\r\n$1\r\nx\r\nPING  'y'\r\n";
  RequestParser parser;
  ParseResult result = parser.Parse(bytes, {});
  ASSERT_EQ(result.status, ParseStatus::kDone);
  EXPECT_EQ(parser.args()[1].data(), bytes.data() + 18);
  const size_t first = result.consumed;
  result = parser.Parse(std::span(bytes).subspan(first), {});
  ASSERT_EQ(result.status, ParseStatus::kDone);
  EXPECT_EQ(parser.args()[0].data(), bytes.data() + first);
  EXPECT_EQ(parser.args()[1], "y");
  EXPECT_EQ(first + result.consumed, bytes.size());
}

TEST(RequestParser, SkipsEmptyLinesAndEmptyMultibulks) {
  const Heard heard = Whole("\r\n\n*0\r\n   \r\n*-1\r\nPING\r\n\r\n*0\r\n");
  EXPECT_EQ(heard.commands, (std::vector<Args>{{"PING"}}));
  EXPECT_EQ(heard.left, 0u);
}

TEST(RequestParser, InlineQuotesFollowRedis) {
  const auto args = [](std::string_view line) {
    const Heard heard = Whole(std::string(line) + "\n");
    EXPECT_EQ(heard.error, "") << line;
    return heard.commands.empty() ? Args{} : heard.commands[0];
  };
  EXPECT_EQ(args("  SET \t a   b "), (Args{"SET", "a", "b"}));
  EXPECT_EQ(args(R"("a b" 'c d')"), (Args{"a b", "c d"}));
  EXPECT_EQ(args(R"("\n\r\t\b\a\\\"\q")"), (Args{"\n\r\t\b\a\\\"q"}));
  EXPECT_EQ(args(R"("\x41\x0a\xfF\xg1")"), (Args{"A\n\xffxg1"}));
  EXPECT_EQ(args(R"('it\'s \n')"), (Args{"it's \\n"}));
  EXPECT_EQ(args(R"(foo"bar baz")"), (Args{"foobar baz"}));
  EXPECT_EQ(args(R"("" '')"), (Args{"", ""}));
  EXPECT_EQ(args("PING\r"), (Args{"PING"}));
}

TEST(RequestParser, UnbalancedQuotesAreAnError) {
  for (const std::string_view line : {"PING \"x", "PING 'x", "PING \"x\"y", "PING 'x'y", "PING \"x\\", "'"}) {
    EXPECT_EQ(ErrorOf(std::string(line) + "\r\n"), "Protocol error: unbalanced quotes in request") << line;
  }
}

TEST(RequestParser, MalformedLengthsAreErrorsInRedisWords) {
  for (const std::string_view bytes :
       {"*x\r\n", "*\r\n", "*1x\r\n", "*1\rx", "*01\r\n", "*+1\r\n", "*--1\r\n", "*1025\r\n",
        "*99999999999999999999\r\n", "*9223372036854775808\r\n"}) {
    EXPECT_EQ(ErrorOf(bytes), "Protocol error: invalid multibulk length") << bytes;
  }
  for (const std::string_view bytes :
       {"$x\r\n", "$\r\n", "$-1\r\n", "$262145\r\n", "$99999999999999999999\r\n", "$1\rx"}) {
    EXPECT_EQ(ErrorOf("*1\r\n" + std::string(bytes)), "Protocol error: invalid bulk length") << bytes;
  }
  EXPECT_EQ(ErrorOf("*1\r\n:1\r\n"), "Protocol error: expected '$', got ':'");
  EXPECT_EQ(ErrorOf("*1\r\n\r\n"), "Protocol error: expected '$', got '?'");
  EXPECT_EQ(ErrorOf("*1\r\n$1\r\nabc"), "Protocol error: bulk without CRLF at its end");
}

TEST(RequestParser, CommandsBeforeAnErrorAreHeard) {
  const Heard heard = Whole("PING\r\n*1\r\n$4\r\nPING\r\n*x\r\nPING\r\n");
  EXPECT_EQ(heard.commands.size(), 2u);
  EXPECT_EQ(heard.error, "Protocol error: invalid multibulk length");
}

TEST(RequestParser, BeforeAuthThereAreTenArgumentsAnd16KiB) {
  EXPECT_EQ(ErrorOf("*11\r\n", kLimitsBeforeAuth), "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$16385\r\n", kLimitsBeforeAuth), "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(ErrorOf("*2000\r\n", kLimitsBeforeAuth), "Protocol error: invalid multibulk length");
  std::string ten;
  const std::vector<std::string_view> args(10, "x");
  AppendCommand(ten, args);
  const std::string long_one(16'384, 'k');
  AppendCommand(ten, {"AUTH", long_one});
  EXPECT_EQ(Whole(ten, kLimitsBeforeAuth).commands.size(), 2u);
}

TEST(RequestParser, BoundsAreInclusive) {
  const Limits limits{.max_args = 3, .max_bulk_bytes = 8, .max_command_bytes = 36, .max_inline_bytes = 10};
  EXPECT_EQ(Whole("*3\r\n$8\r\n12345678\r\n$1\r\na\r\n$1\r\nb\r\n", limits).commands.size(), 1u);
  EXPECT_EQ(ErrorOf("*4\r\n", limits), "Protocol error: invalid multibulk length");
  EXPECT_EQ(ErrorOf("*3\r\n$9\r\n", limits), "Protocol error: invalid bulk length");
  EXPECT_EQ(Whole("*3\r\n$8\r\n12345678\r\n$6\r\n123456\r\n$0\r\n\r\n", limits).commands.size(),
            1u);  // 36 bytes
  EXPECT_EQ(ErrorOf("*3\r\n$8\r\n12345678\r\n$7\r\n1234567\r\n$0\r\n\r\n", limits),
            "Protocol error: too big multibulk request");
  EXPECT_EQ(Whole("1234567890\r\n", limits).commands.size(), 1u);
  EXPECT_EQ(Whole("1234567890\n", limits).commands.size(), 1u);
  EXPECT_EQ(ErrorOf("12345678901\r\n", limits), "Protocol error: too big inline request");
  EXPECT_EQ(ErrorOf("12345678901\n", limits), "Protocol error: too big inline request");
  EXPECT_EQ(ErrorOf("1 2 3 4\r\n", limits), "Protocol error: too many arguments in inline request");
}

TEST(RequestParser, AnInlineLineOf64KiBIsReadAndALongerOneRefused) {
  const std::string most(64 * 1'024, 'a');
  EXPECT_EQ(Whole(most + "\r\n").commands, (std::vector<Args>{{most}}));
  EXPECT_EQ(Whole(most + "a\r\n").error, "Protocol error: too big inline request");
  EXPECT_EQ(Whole(most + "aa").error,
            "Protocol error: too big inline request");  // without waiting for its end
}

TEST(RequestParser, MoreThanSixteenArgumentsAreRead) {
  std::vector<std::string> words(1'024);
  for (size_t i = 0; i < words.size(); ++i) words[i] = std::to_string(i);
  const std::vector<std::string_view> args(words.begin(), words.end());
  std::string bytes;
  AppendCommand(bytes, args);
  AppendCommand(bytes, {"PING"});
  const Heard heard = Feed(bytes, {7});
  ASSERT_EQ(heard.commands.size(), 2u);
  EXPECT_EQ(heard.commands[0], words);
  EXPECT_EQ(heard.commands[1], Args{"PING"});
}

// A parser that began anew at each call would touch 2 * 10^9 bytes here.
TEST(RequestParser, ACommandOf64KiBFedByteByByteIsLinear) {
  std::string bytes;
  const std::string value(64 * 1'024, 'v');
  AppendCommand(bytes, {"ECHO", value});
  const size_t multibulk = bytes.size();
  bytes += std::string(64 * 1'024 - 1, 'i') + "\r\n";
  RequestParser parser;
  const auto feed = [&](size_t begin, size_t end) {
    size_t dones = 0;
    for (size_t size = 1; size <= end - begin; ++size) {
      const ParseResult result = parser.Parse(std::span(bytes).subspan(begin, size), {});
      ASSERT_NE(result.status, ParseStatus::kError);
      if (result.status == ParseStatus::kDone) ++dones;
    }
    EXPECT_EQ(dones, 1u);
  };
  feed(0, multibulk);
  EXPECT_EQ(parser.args()[1], value);
  feed(multibulk, bytes.size());
}

TEST(RequestParser, ResetForgetsAHalfReadCommand) {
  std::string half = "*2\r\n$4\r\nECHO\r\n$9\r\nab";
  std::string whole = "PING\r\n";
  RequestParser parser;
  EXPECT_EQ(parser.Parse(half, {}).status, ParseStatus::kNeedMore);
  parser.Reset();
  EXPECT_EQ(parser.Parse(whole, {}).status, ParseStatus::kDone);
  EXPECT_EQ(parser.args()[0], "PING");
}

class RandomPipeline {
 public:
  explicit RandomPipeline(Random& random) : random_(random) {}

  std::string Make() {
    std::string bytes;
    for (uint64_t i = random_.Below(12); i > 0; --i) AppendSomething(bytes);
    return bytes;
  }

 private:
  void AppendSomething(std::string& bytes) {
    switch (random_.Below(10)) {
      case 0:
        bytes += random_.Below(2) == 0 ? "\r\n" : "*0\r\n";
        break;
      case 1:
        bytes += "PING 'a\\'b' \"\\x41 \\n\" c\r\n";
        break;
      case 2:  // noise, mostly an error
        for (uint64_t i = random_.Below(8); i > 0; --i) bytes += "*$\r\n01 \"'x:-"[random_.Below(12)];
        break;
      default: {
        std::vector<std::string> words(1 + random_.Below(random_.Below(20) == 0 ? 60 : 8));
        for (std::string& word : words) {
          word.resize(random_.Below(random_.Below(10) == 0 ? 3'000 : 20));
          for (char& c : word) c = static_cast<char>(random_.Below(256));
        }
        AppendCommand(bytes, std::vector<std::string_view>(words.begin(), words.end()));
      }
    }
  }

  Random& random_;
};

TEST(RequestParser, PiecesOfAnySizeAreHeardLikeTheWhole) {
  const char* given = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
  std::printf("PENSTOCK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int round = 0; round < 400; ++round) {
    const std::string bytes = RandomPipeline(random).Make();
    const Heard whole = Whole(bytes);
    const std::vector<size_t> sizes{1 + random.Below(5), 1 + random.Below(50), 1 + random.Below(9)};
    const Heard pieces = Feed(bytes, sizes);
    ASSERT_EQ(whole.commands, pieces.commands);
    ASSERT_EQ(whole.error, pieces.error);
    if (whole.error.empty()) {
      ASSERT_EQ(whole.left, pieces.left);
    }
    if (bytes.size() < 2'000) {
      ASSERT_EQ(whole.commands, Feed(bytes, {1}).commands);
    }
  }
}

}  // namespace
}  // namespace penstock::resp
