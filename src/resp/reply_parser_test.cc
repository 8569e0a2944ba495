#include "resp/reply_parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/random.h"
#include "resp/writer.h"

namespace penstock::resp {
namespace {

// A reply as text: `[1 "a" nil]`.
std::string Show(std::span<const ReplyNode> nodes, size_t& at) {
  const ReplyNode& node = nodes[at++];
  const auto children = [&](const char* open, const char* close) {
    std::string text = open;
    uint32_t count = 0;
    while (at < node.end) {
      if (count++ > 0) text += ' ';
      text += Show(nodes, at);
    }
    EXPECT_EQ(count, node.children);
    return text + close;
  };
  switch (node.type) {
    case ReplyType::kNull:
      return "nil";
    case ReplyType::kSimple:
      return "+" + std::string(node.text);
    case ReplyType::kError:
      return "-" + std::string(node.text);
    case ReplyType::kInteger:
      return std::to_string(node.integer);
    case ReplyType::kBulk:
      return '"' + std::string(node.text) + '"';
    case ReplyType::kBoolean:
      return node.integer == 1 ? "true" : "false";
    case ReplyType::kDouble:
      return "," + std::string(node.text);
    case ReplyType::kBigNumber:
      return "(" + std::string(node.text);
    case ReplyType::kVerbatim:
      return "=" + std::string(node.text);
    case ReplyType::kArray:
      return children("[", "]");
    case ReplyType::kMap:
      return children("{", "}");
    case ReplyType::kSet:
      return children("~(", ")");
    case ReplyType::kPush:
      return children(">[", "]");
  }
  return "?";
}

struct Heard {
  std::string replies;  // one a line
  std::string error;
  size_t left = 0;

  friend bool operator==(const Heard&, const Heard&) = default;
};

Heard Feed(std::string_view bytes, size_t step, const ReplyLimits& limits = {}) {
  Heard heard;
  ReplyParser parser(limits);
  std::string unread;
  for (size_t at = 0; at < bytes.size(); at += step) {
    unread += bytes.substr(at, step);
    for (;;) {
      const std::vector<char> copy(unread.begin(), unread.end());  // exact bounds for the address sanitizer
      const ParseResult result = parser.Parse({copy.data(), copy.size()});
      if (result.status == ParseStatus::kDone) {
        size_t node = 0;
        heard.replies += Show(parser.nodes(), node) + "\n";
        EXPECT_EQ(node, parser.nodes().size());
      }
      unread.erase(0, result.consumed);
      if (result.status == ParseStatus::kError) {
        heard.error = parser.error();
        return heard;
      }
      if (result.status == ParseStatus::kNeedMore) break;
    }
  }
  heard.left = unread.size();
  return heard;
}

Heard Whole(std::string_view bytes, const ReplyLimits& limits = {}) {
  Heard whole = Feed(bytes, std::max<size_t>(1, bytes.size()), limits);
  EXPECT_EQ(whole, Feed(bytes, 1, limits)) << bytes;
  return whole;
}

TEST(ReplyParser, EveryTypeOfResp2) {
  EXPECT_EQ(Whole("+OK\r\n-ERR no\r\n:42\r\n:-7\r\n$3\r\na\nb\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n").replies,
            "+OK\n-ERR no\n42\n-7\n\"a\nb\"\n\"\"\nnil\nnil\n[]\n");
  EXPECT_EQ(Whole("*3\r\n:1\r\n*2\r\n+a\r\n$-1\r\n$1\r\nb\r\n").replies, "[1 [+a nil] \"b\"]\n");
}

TEST(ReplyParser, EveryTypeOfResp3) {
  EXPECT_EQ(
      Whole("_\r\n#t\r\n#f\r\n,3.5\r\n,inf\r\n,-inf\r\n,nan\r\n(123456789012345678901234567890\r\n").replies,
      "nil\ntrue\nfalse\n,3.5\n,inf\n,-inf\n,nan\n(123456789012345678901234567890\n");
  EXPECT_EQ(
      Whole(
          "!5\r\nERR x\r\n=7\r\ntxt:abc\r\n%2\r\n+a\r\n:1\r\n+b\r\n*0\r\n~2\r\n:1\r\n:2\r\n>2\r\n+m\r\n_\r\n")
          .replies,
      "-ERR x\n=abc\n{+a 1 +b []}\n~(1 2)\n>[+m nil]\n");
}

TEST(ReplyParser, DoublesHaveTheirValue) {
  ReplyParser parser;
  ASSERT_EQ(parser.Parse(",-1.25e2\r\n").status, ParseStatus::kDone);
  EXPECT_EQ(parser.root().real, -125);
  ASSERT_EQ(parser.Parse(",-inf\r\n").status, ParseStatus::kDone);
  EXPECT_TRUE(std::isinf(parser.root().real) && parser.root().real < 0);
}

TEST(ReplyParser, AttributesAreSkippedWhereverTheyStand) {
  EXPECT_EQ(
      Whole("|1\r\n+ttl\r\n:3600\r\n*2\r\n:1\r\n|1\r\n+x\r\n*2\r\n:8\r\n:9\r\n:2\r\n|0\r\n+OK\r\n").replies,
      "[1 2]\n+OK\n");
  EXPECT_EQ(Whole("*1\r\n|1\r\n+a\r\n|1\r\n+b\r\n:1\r\n:2\r\n:3\r\n").replies, "[3]\n");
}

TEST(ReplyParser, MalformedRepliesAreErrors) {
  for (const std::string_view bytes :
       {"?\r\n",   "PONG\r\n", ":x\r\n",      ":\r\n",         ":99999999999999999999\r\n",
        "$-2\r\n", "!-1\r\n",  "*-2\r\n",     "%-1\r\n",       "$1\r\nab\r\n",
        "#x\r\n",  "_x\r\n",   ",x\r\n",      ",1e999\r\n",    ",\r\n",
        "(\r\n",   "(1a\r\n",  "+a\rb",       "=3\r\nabc\r\n", "=5\r\nabcde\r\n",
        "*?\r\n",  "$?\r\n",   "*9999999\r\n"}) {
    const Heard heard = Whole(bytes);
    EXPECT_NE(heard.error, "") << bytes;
    EXPECT_EQ(heard.replies, "") << bytes;
  }
}

TEST(ReplyParser, BoundsAreInclusive) {
  const ReplyLimits limits{
      .max_depth = 2, .max_nodes = 5, .max_line_bytes = 4, .max_bulk_bytes = 6, .max_reply_bytes = 40};
  EXPECT_EQ(Whole("*1\r\n*1\r\n:1\r\n", limits).replies, "[[1]]\n");
  EXPECT_EQ(Whole("*1\r\n*1\r\n*1\r\n:1\r\n", limits).error, "reply nested too deeply");
  EXPECT_EQ(Whole("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", limits).replies, "[1 1 1 1]\n");
  EXPECT_EQ(Whole("*5\r\n", limits).error, "too many elements in a reply");
  EXPECT_EQ(Whole("%2\r\n", limits).error, "");
  EXPECT_EQ(Whole("%3\r\n", limits).error, "too many elements in a reply");
  EXPECT_EQ(Whole("+1234\r\n", limits).replies, "+1234\n");
  EXPECT_EQ(Whole("+12345", limits).error, "line too long");
  EXPECT_EQ(Whole("$6\r\n123456\r\n", limits).replies, "\"123456\"\n");
  EXPECT_EQ(Whole("$7\r\n", limits).error, "invalid bulk length");
  EXPECT_EQ(Whole("*4\r\n$6\r\n123456\r\n$6\r\n123456\r\n$6\r\n123456\r\n$6\r\n", limits).error,
            "reply too big");
  EXPECT_EQ(Whole("|1\r\n+a\r\n+b\r\n|1\r\n+a\r\n+b\r\n|1\r\n+a\r\n+b\r\n|1\r\n+a\r\n", limits).error,
            "reply too big");
}

TEST(ReplyParser, ABulkOf64KiBFedByteByByteIsLinear) {
  const std::string value(64 * 1'024, 'v');
  std::string bytes = "*2\r\n$65536\r\n" + value + "\r\n+" + std::string(60'000, 's') + "\r\n";
  ReplyParser parser;
  for (size_t size = 1; size < bytes.size(); ++size) {
    ASSERT_EQ(parser.Parse(std::string_view(bytes).substr(0, size)).status, ParseStatus::kNeedMore);
  }
  ASSERT_EQ(parser.Parse(bytes).status, ParseStatus::kDone);
  EXPECT_EQ(parser.nodes()[1].text, value);
}

TEST(ReplyParser, ResetForgetsAHalfReadReply) {
  ReplyParser parser;
  EXPECT_EQ(parser.Parse("*2\r\n:1\r\n").status, ParseStatus::kNeedMore);
  parser.Reset();
  EXPECT_EQ(parser.Parse("+OK\r\n").status, ParseStatus::kDone);
  EXPECT_EQ(parser.nodes().size(), 1u);
}

void AppendRandomReply(Random& random, int depth, std::string& bytes) {
  static constexpr std::string_view kLeaves[] = {
      "+OK\r\n",  "-ERR a\r\n", ":123\r\n",         "$-1\r\n",       "_\r\n",  "#t\r\n",
      ",1.5\r\n", "(99999\r\n", "=6\r\ntxt:ab\r\n", "!3\r\nERR\r\n", "*-1\r\n"};
  if (depth < 4 && random.Below(3) == 0) {
    const char type = "*%~>|"[random.Below(5)];
    const uint64_t count = random.Below(4);
    bytes += type + std::to_string(count) + "\r\n";
    for (uint64_t i = type == '%' || type == '|' ? count * 2 : count; i > 0; --i) {
      AppendRandomReply(random, depth + 1, bytes);
    }
    if (type == '|') AppendRandomReply(random, depth + 1, bytes);
    return;
  }
  if (random.Below(3) > 0) {
    bytes += kLeaves[random.Below(std::size(kLeaves))];
    return;
  }
  std::string text(random.Below(random.Below(8) == 0 ? 2'000 : 12), '\0');
  for (char& c : text) c = static_cast<char>(random.Below(256));
  Writer(bytes, Protocol::kResp2).Bulk(text);
}

TEST(ReplyParser, PiecesOfAnySizeAreHeardLikeTheWhole) {
  const char* given = std::getenv("PENSTOCK_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
  std::printf("PENSTOCK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int round = 0; round < 400; ++round) {
    std::string bytes;
    for (uint64_t i = 1 + random.Below(6); i > 0; --i) AppendRandomReply(random, 0, bytes);
    const Heard whole = Feed(bytes, bytes.size());
    ASSERT_EQ(whole.error, "");
    ASSERT_EQ(whole.left, 0u);
    ASSERT_EQ(whole, Feed(bytes, 1 + random.Below(9)));
    // A broken byte: an error or other replies, the same ones however it is fed.
    bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    const Heard broken = Feed(bytes, bytes.size());
    ASSERT_EQ(broken, Feed(bytes, 1 + random.Below(9)));
  }
}

}  // namespace
}  // namespace penstock::resp
