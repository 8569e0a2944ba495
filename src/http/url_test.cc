#include "http/url.h"

#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "base/test_seed.h"

namespace penstock::http {
namespace {

std::string Normal(std::string_view path) {
  std::string out = "kept ";
  if (!AppendNormalPath(out, path)) {
    EXPECT_EQ(out, "kept ");
    return "none";
  }
  return out.substr(5);
}

TEST(Url, TargetIsSplitAtItsFirstQuestionMark) {
  EXPECT_EQ(SplitTarget("/a?b?c").path, "/a");
  EXPECT_EQ(SplitTarget("/a?b?c").query, "b?c");
  EXPECT_EQ(SplitTarget("/a").path, "/a");
  EXPECT_EQ(SplitTarget("/a").query, "");
}

TEST(Url, EqualSpellingsOfAPathBecomeOne) {
  for (const std::string_view path :
       {"/login", "//login", "/./login", "/a/../login", "/%6Cogin", "/%6cogin", "/../../login",
        "/a/%2e%2E/login", "/.//login", "/a/b/../../login", "///a//..//login"}) {
    EXPECT_EQ(Normal(path), "/login") << path;
  }
  EXPECT_EQ(Normal("/login/"), "/login/");
  EXPECT_EQ(Normal("/login//"), "/login/");
  EXPECT_EQ(Normal("/login/."), "/login/");
  EXPECT_EQ(Normal("/login/x/.."), "/login/");
  EXPECT_EQ(Normal("/"), "/");
  EXPECT_EQ(Normal("/.."), "/");
  EXPECT_EQ(Normal("/..."), "/...");
  EXPECT_EQ(Normal("/.a/..b"), "/.a/..b");
  EXPECT_EQ(Normal("/a;p=1/b:c@d!$&'()*+,=~"), "/a;p=1/b:c@d!$&'()*+,=~");
}

TEST(Url, WhatIsNotUnreservedStaysEncoded) {
  EXPECT_EQ(Normal("/a%2fb"), "/a%2Fb");
  EXPECT_EQ(Normal("/a%2Fb"), "/a%2Fb");
  EXPECT_EQ(Normal("/..%2flogin"), "/..%2Flogin");
  EXPECT_EQ(Normal("/%00"), "/%00");
  EXPECT_EQ(Normal("/%25"), "/%25");
  EXPECT_EQ(Normal("/%3F"), "/%3F");
  EXPECT_EQ(Normal("/\xc3\xbc"), "/%C3%BC");
  EXPECT_EQ(Normal("/%c3%bc"), "/%C3%BC");
  EXPECT_EQ(Normal("/a\\b\"<>^`{|}"), "/a%5Cb%22%3C%3E%5E%60%7B%7C%7D");
}

TEST(Url, AMalformedPathHasNoNormalForm) {
  for (const std::string_view path : {"", "a", "*", "/%", "/%4", "/%zz", "/a/%4g", "/%%41"}) {
    EXPECT_EQ(Normal(path), "none") << path;
  }
}

TEST(Url, NormalFormIsNormal) {
  Random random(TestSeed());
  constexpr std::string_view kAlphabet = "/./..%2e%2f%41aA%\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string path = "/";
    for (uint64_t i = random.Below(12); i > 0; --i) {
      const size_t at = random.Below(kAlphabet.size());
      path += kAlphabet.substr(at, 1 + random.Below(4));
    }
    const std::string once = Normal(path);
    if (once == "none") continue;
    ASSERT_EQ(Normal(once), once) << path;
    ASSERT_EQ(once.find("//"), std::string::npos) << path;
    ASSERT_EQ((once + "/").find("/./"), std::string::npos) << path;
    ASSERT_EQ((once + "/").find("/../"), std::string::npos) << path;
  }
}

TEST(Url, Decoding) {
  std::string out = "kept ";
  EXPECT_TRUE(AppendDecoded(out, "a%20b+c%2B"));
  EXPECT_TRUE(AppendDecoded(out, "+", Plus::kIsSpace));
  EXPECT_EQ(out, "kept a b+c+ ");
  for (const std::string_view text : {"%", "a%4", "%4g", "%%41", "abc%"}) {
    EXPECT_FALSE(AppendDecoded(out, text)) << text;
  }
  EXPECT_EQ(out, "kept a b+c+ ");
}

TEST(Url, SegmentsOfAPath) {
  std::array<std::string_view, 3> segments;
  EXPECT_EQ(SplitPath("/v1/limits", segments), 2u);
  EXPECT_EQ(segments[0], "v1");
  EXPECT_EQ(segments[1], "limits");
  EXPECT_EQ(SplitPath("/v1/", segments), 2u);
  EXPECT_EQ(segments[1], "");
  EXPECT_EQ(SplitPath("/", segments), 1u);
  EXPECT_EQ(SplitPath("/a/b/c", segments), 3u);
  EXPECT_EQ(SplitPath("/a/b/c/d", segments), std::nullopt);
  EXPECT_EQ(SplitPath("a", segments), std::nullopt);
  EXPECT_EQ(SplitPath("", segments), std::nullopt);
}

TEST(Url, QueryIsParsedAndDecoded) {
  const auto query = ParseQuery("a=1&b=x%20y+z&&c&d==e&header=X-User:user");
  ASSERT_TRUE(query);
  ASSERT_EQ(query->size(), 5u);
  EXPECT_EQ((*query)[0].name, "a");
  EXPECT_EQ((*query)[0].value, "1");
  EXPECT_EQ((*query)[1].value, "x y z");
  EXPECT_EQ((*query)[2].name, "c");
  EXPECT_EQ((*query)[2].value, "");
  EXPECT_EQ((*query)[3].value, "=e");
  EXPECT_EQ((*query)[4].value, "X-User:user");
  EXPECT_EQ(ParseQuery("")->size(), 0u);
  EXPECT_EQ(ParseQuery("&&")->size(), 0u);
}

TEST(Url, QueryHasItsBounds) {
  EXPECT_EQ(ParseQuery("a=%4").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(ParseQuery("%=4").error().kind, ErrorKind::kInvalid);
  std::string many;
  for (size_t i = 0; i < kMaxQueryParameters; ++i) many += "a=b&";
  EXPECT_EQ(ParseQuery(many)->size(), kMaxQueryParameters);
  EXPECT_EQ(ParseQuery(many + "a").error().kind, ErrorKind::kTooLarge);
}

}  // namespace
}  // namespace penstock::http
