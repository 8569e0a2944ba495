#include "resp/writer.h"

#include <gtest/gtest.h>

namespace penstock::resp {
namespace {

template <class Write>
std::string In(Protocol protocol, Write write) {
  std::string out;
  Writer writer(out, protocol);
  write(writer);
  return out;
}

template <class Write>
void ExpectBoth(Write write, std::string_view resp2, std::string_view resp3) {
  EXPECT_EQ(In(Protocol::kResp2, write), resp2);
  EXPECT_EQ(In(Protocol::kResp3, write), resp3);
}

TEST(Writer, EveryFormInBothVersions) {
  ExpectBoth([](Writer& w) { w.Null(); }, "$-1\r\n", "_\r\n");
  ExpectBoth([](Writer& w) { w.NullArray(); }, "*-1\r\n", "_\r\n");
  ExpectBoth([](Writer& w) { w.Map(3); }, "*6\r\n", "%3\r\n");
  ExpectBoth([](Writer& w) { w.Array(12); }, "*12\r\n", "*12\r\n");
  ExpectBoth([](Writer& w) { w.Ok(); }, "+OK\r\n", "+OK\r\n");
  ExpectBoth([](Writer& w) { w.Simple("PONG"); }, "+PONG\r\n", "+PONG\r\n");
  ExpectBoth([](Writer& w) { w.Bulk("a\r\nb"); }, "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
  ExpectBoth([](Writer& w) { w.Bulk(""); }, "$0\r\n\r\n", "$0\r\n\r\n");
}

TEST(Writer, IntegersOfEveryLength) {
  for (const int64_t value :
       {int64_t{0}, int64_t{9}, int64_t{10}, int64_t{-1}, int64_t{-10}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(In(Protocol::kResp2, [&](Writer& w) { w.Integer(value); }),
              ":" + std::to_string(value) + "\r\n");
  }
  EXPECT_EQ(In(Protocol::kResp2,
               [](Writer& w) {
                 w.Integers({0, 16, 15, -1, 2});
               }),
            "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
  EXPECT_EQ(In(Protocol::kResp2, [](Writer& w) { w.Integers({}); }), "*0\r\n");
}

TEST(Writer, MoreIntegersThanFitAtOnce) {
  const auto write = [](Writer& w) {
    w.Integers({INT64_MIN, 2, 3, 4, 5, 6, 7, INT64_MIN, 9, 10, 11, 12, 13, 14, 15, 16, 17});
  };
  std::string expected = "*17\r\n";
  for (int i = 1; i <= 17; ++i) {
    expected += ":" + (i == 1 || i == 8 ? std::to_string(INT64_MIN) : std::to_string(i)) + "\r\n";
  }
  EXPECT_EQ(In(Protocol::kResp3, write), expected);
}

TEST(Writer, LineBreaksInLinesAreHarmless) {
  EXPECT_EQ(In(Protocol::kResp2, [](Writer& w) { w.Error("ERR a\r\n+OK\r\nb"); }), "-ERR a  +OK  b\r\n");
  EXPECT_EQ(In(Protocol::kResp2, [](Writer& w) { w.Simple("a\nb"); }), "+a b\r\n");
}

TEST(Writer, LongBulksAreWhole) {
  for (const size_t size : {64u, 65u, 1'000u, 70'000u}) {
    const std::string text(size, 'x');
    EXPECT_EQ(In(Protocol::kResp2, [&](Writer& w) { w.Bulk(text); }),
              "$" + std::to_string(size) + "\r\n" + text + "\r\n");
  }
}

TEST(Writer, CommandsAreMultibulks) {
  std::string out;
  AppendCommand(out, {"ECHO", "a b"});
  EXPECT_EQ(out, "*2\r\n$4\r\nECHO\r\n$3\r\na b\r\n");
}

}  // namespace
}  // namespace penstock::resp
