#include "base/json_text.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

TEST(JsonText, PlainTextStandsAsItIs) { EXPECT_EQ(Quoted("user-42"), R"("user-42")"); }

TEST(JsonText, QuotesBackslashesAndControlsAreEscaped) {
  EXPECT_EQ(Quoted("a\"b\\c\nd\x01"), "\"a\\\"b\\\\c\\nd\\u0001\"");
  EXPECT_EQ(Quoted(std::string_view("\0\x7f", 2)), "\"\\u0000\\u007f\"");
}

TEST(JsonText, Utf8StaysAndWhatIsNoneIsReplaced) {
  EXPECT_EQ(Quoted("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
  EXPECT_EQ(Quoted("\xC3"), "\"\xEF\xBF\xBD\"");                                  // cut off
  EXPECT_EQ(Quoted("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                  // overlong
  EXPECT_EQ(Quoted("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // surrogate
}

TEST(JsonText, FieldsAreSeparatedByCommas) {
  std::string out = "{";
  AppendJsonField(out, "a\"", "b");
  AppendJsonField(out, "n", -7);
  AppendJsonName(out, "list");
  out += "[]}";
  EXPECT_EQ(out, R"({"a\"":"b","n":-7,"list":[]})");
}

}  // namespace
}  // namespace penstock
