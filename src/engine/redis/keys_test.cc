#include "engine/redis/keys.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "engine/redis/slots.h"

namespace penstock::engine::redis {
namespace {

using Values = std::vector<std::string_view>;

core::Limit MakeLimit(std::string name = "per-user", int shard_part = -1) {
  core::Limit limit;
  limit.domain = "api";
  limit.name = std::move(name);
  limit.identity = "2;3:api8:per-user";
  limit.shard_part = shard_part;
  return limit;
}

struct Made {
  std::string key;
  int32_t slot = 0;
};
Made Make(const core::Limit& limit, const Values& values) {
  const BucketKeys keys("pen:", limit);
  Made made;
  made.key = "before ";  // it appends
  made.slot = keys.Append(made.key, values);
  made.key.erase(0, 7);
  std::string without;
  keys.AppendWithoutSlot(without, values);
  EXPECT_EQ(without, made.key);
  EXPECT_EQ(made.slot, SlotOf(made.key)) << made.key;
  return made;
}

// What a stored byte may be: printable, and none that a shell, a pattern or our own separators would take.
void ExpectReadable(const std::string& key) {
  for (const char c : key) {
    EXPECT_TRUE(c > ' ' && c < 127) << static_cast<int>(c) << " in " << key;
    EXPECT_EQ(std::string_view("*?[]\"'\\").find(c), std::string_view::npos) << key;
  }
  EXPECT_EQ(std::count(key.begin(), key.end(), '{'), 1) << key;
  EXPECT_EQ(std::count(key.begin(), key.end(), '}'), 1) << key;
}

TEST(Slots, AsRedisCountsThem) {
  EXPECT_EQ(Crc16("123456789"), 0x31C3);
  EXPECT_EQ(Crc16("6789", Crc16("12345")), 0x31C3);
  EXPECT_EQ(SlotOf("123456789"), 12739);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("bar"), 5061);
  EXPECT_EQ(SlotOf("{user1000}.following"), 3443);
  EXPECT_EQ(SlotOf("foo{}{bar}"), 8363);
  EXPECT_EQ(SlotOf("foo{{bar}}zap"), 4015);
  EXPECT_EQ(SlotOf("foo{bar}{zap}"), 5061);
  EXPECT_EQ(SlotOf("foo{bar"), SlotOf("foo{bar"));
  EXPECT_EQ(HashTag("foo{bar"), "foo{bar");
  EXPECT_EQ(SlotOf(""), 0);
}

TEST(Slots, EachHasATagOfItsOwn) {
  std::set<std::string_view> tags;
  for (int32_t slot = 0; slot < kSlotCount; ++slot) {
    const std::string_view tag = TagOfSlot(slot);
    ASSERT_EQ(tag.size(), 4u);
    ASSERT_EQ(SlotOf(tag), slot) << tag;
    tags.insert(tag);
  }
  EXPECT_EQ(tags.size(), static_cast<size_t>(kSlotCount));
  // Part of names that nodes share: another choice would lose every id at an upgrade.
  EXPECT_EQ(TagOfSlot(SlotOf("0000")), "0000");
  EXPECT_EQ(TagOfSlot(0), "05cc");
  EXPECT_EQ(TagOfSlot(16383), "01k0");
}

TEST(Keys, AreReadable) {
  EXPECT_EQ(Make(MakeLimit(), {"alice"}).key, "pen:{api/per-user:d10ac9edca4460ea:alice}");
  EXPECT_EQ(Make(MakeLimit(), {"alice@example.org", "2001:db8::1"}).key,
            "pen:{api/per-user:d10ac9edca4460ea:alice@example.org,2001:db8::1}");
  EXPECT_EQ(Make(MakeLimit(), {}).key, "pen:{api/per-user:d10ac9edca4460ea:}");
  core::Limit ad_hoc = MakeLimit("(ad hoc)");
  ad_hoc.domain = "(ad hoc)";
  EXPECT_EQ(Make(ad_hoc, {"user:42"}).key, "pen:{(ad%20hoc)/(ad%20hoc):d10ac9edca4460ea:user:42}");
}

TEST(Keys, OfAnotherIdentityAreOthers) {
  core::Limit other = MakeLimit();
  other.identity += "x";
  EXPECT_NE(Make(other, {"alice"}).key, Make(MakeLimit(), {"alice"}).key);
  EXPECT_NE(Make(MakeLimit("per-tenant"), {"alice"}).key, Make(MakeLimit(), {"alice"}).key);
}

TEST(Keys, HoldNoByteThatCouldMislead) {
  const std::vector<std::string> hostile = {"{",
                                            "}",
                                            "{}",
                                            "a{b}c",
                                            " ",
                                            "\n",
                                            std::string(1, '\0'),
                                            std::string("a\0b", 3),
                                            ",",
                                            "%2c",
                                            "%",
                                            "#",
                                            "*?[]",
                                            "\"'\\",
                                            "\x7f",
                                            "\xff\xfe",
                                            "\xc3\xa4",
                                            "a,b",
                                            ""};
  std::map<std::string, std::string> seen;
  for (const std::string& value : hostile) {
    const std::string key = Make(MakeLimit(), {value}).key;
    ExpectReadable(key);
    EXPECT_TRUE(seen.emplace(key, value).second) << key;
  }
  EXPECT_NE(Make(MakeLimit(), {"a,b", "c"}).key, Make(MakeLimit(), {"a", "b,c"}).key);
  EXPECT_NE(Make(MakeLimit(), {"", "a"}).key, Make(MakeLimit(), {"a", ""}).key);
}

TEST(Keys, BeyondTheirLengthAreDigests) {
  const std::string longest(kMaxValueBytes, 'x');
  EXPECT_NE(Make(MakeLimit(), {longest}).key.find(longest), std::string::npos);
  const std::string tail = longest + "y";
  const std::string key = Make(MakeLimit(), {tail}).key;
  EXPECT_EQ(key.size(), std::string("pen:{api/per-user:d10ac9edca4460ea:#}").size() + 64);
  ExpectReadable(key);
  EXPECT_NE(key, Make(MakeLimit(), {longest + "z"}).key);
  // What is short but grows by being escaped, what is long only together, and where one value ends.
  const std::string braces(kMaxValueBytes / 2, '{');
  ExpectReadable(Make(MakeLimit(), {braces}).key);
  EXPECT_LT(Make(MakeLimit(), {braces}).key.size(), 128u);
  const std::string half(kMaxValueBytes / 2, 'h');
  EXPECT_LT(Make(MakeLimit(), {half, half}).key.size(), 128u);
  EXPECT_NE(Make(MakeLimit(), {half + "h", half}).key, Make(MakeLimit(), {half, half + "h"}).key);
  const std::string huge(64 * 1024, '\0');
  EXPECT_LT(Make(MakeLimit(), {huge}).key.size(), 128u);
  // A value that looks like a digest is none.
  EXPECT_NE(Make(MakeLimit(), {key.substr(key.find('#'), 65)}).key, key);
}

// SHA-256 over each value's length (eight bytes, the low one first) and bytes.
TEST(Keys, DigestIsWhatTheManualSays) {
  const std::string key = Make(MakeLimit(), {std::string(600, 'a')}).key;
  EXPECT_EQ(key,
            "pen:{api/"
            "per-user:d10ac9edca4460ea:#7cbfd8010bc4b545dcc2fb080043deab8af1baefce283ec3157db51e1e0daf7a}");
}

TEST(Keys, ShardedByAValueShareItsSlot) {
  const Made by_user = Make(MakeLimit("per-user", 1), {"alice", "acme"});
  EXPECT_EQ(by_user.key, "pen:{api:acme}per-user:d10ac9edca4460ea:alice");
  const Made by_tenant = Make(MakeLimit("per-tenant", 0), {"acme"});
  EXPECT_EQ(by_tenant.key, "pen:{api:acme}per-tenant:d10ac9edca4460ea:");
  EXPECT_EQ(by_user.slot, by_tenant.slot);
  EXPECT_NE(Make(MakeLimit("per-user", 1), {"alice", "other"}).slot, by_user.slot);
  const Made three = Make(MakeLimit("per-user", 1), {"a", "acme", "b"});
  EXPECT_EQ(three.key, "pen:{api:acme}per-user:d10ac9edca4460ea:a,b");
  EXPECT_EQ(three.slot, by_user.slot);
  const std::string tenant(2000, 't');
  const Made digest_user = Make(MakeLimit("per-user", 1), {"alice", tenant});
  const Made digest_tenant = Make(MakeLimit("per-tenant", 0), {tenant});
  EXPECT_EQ(digest_user.slot, digest_tenant.slot);
  ExpectReadable(digest_user.key);
  ExpectReadable(Make(MakeLimit("per-user", 1), {"{x} ", "{y},\n"}).key);
}

TEST(Keys, OfIdsDependOnDomainIdAndSlotAlone) {
  const auto id_key = [](int32_t slot, std::string_view domain, std::string_view id) {
    std::string out;
    AppendIdKey(out, "pen:", slot, domain, id);
    return out;
  };
  EXPECT_EQ(id_key(-1, "api", "r-1"), "pen:id:api:r-1");
  EXPECT_EQ(id_key(0, "api", "r-1"), "pen:{05cc}id:api:r-1");
  EXPECT_NE(id_key(-1, "api", "x"), id_key(-1, "apix", ""));
  EXPECT_NE(id_key(-1, "a", "b:c"), id_key(-1, "a:b", "c"));
  for (int32_t slot = 0; slot < kSlotCount; slot += 97) {
    EXPECT_EQ(SlotOf(id_key(slot, "api", "{a}\n")), slot);
    ExpectReadable(id_key(slot, "api", "{a}\n"));
  }
  // None is a bucket's, whatever the id.
  EXPECT_NE(id_key(-1, "api", "x").find("{"), 4u);
}

TEST(Keys, RandomValuesNeverMeet) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  constexpr std::string_view kBytes("a,%#{}:/\0\n ", 11);
  const core::Limit limit = MakeLimit();
  const core::Limit sharded = MakeLimit("per-user", 0);
  std::map<std::string, std::vector<std::string>> seen;
  for (int step = 0; step < 20'000; ++step) {
    std::vector<std::string> owned(2);
    for (std::string& value : owned) {
      const size_t length = random() % 50 == 0 ? 500 + random() % 30 : random() % 4;
      for (size_t i = 0; i < length; ++i) value += kBytes[random() % kBytes.size()];
    }
    const Values values(owned.begin(), owned.end());
    for (const core::Limit* each : {&limit, &sharded}) {
      const auto [at, fresh] = seen.emplace(Make(*each, values).key, owned);
      ASSERT_EQ(at->second, owned) << at->first << " seed " << seed;
    }
  }
}

TEST(Prefix, WithoutWhatWouldTakeTheTagsPlace) {
  EXPECT_TRUE(CheckPrefix("pen:"));
  EXPECT_TRUE(CheckPrefix(""));
  EXPECT_TRUE(CheckPrefix(std::string(kMaxPrefixBytes, 'x')));
  for (const std::string& bad :
       {std::string("pen{a}:"), std::string("a}"), std::string("a b"), std::string("a\n"), std::string("a*"),
        std::string("\xc3\xa4"), std::string(kMaxPrefixBytes + 1, 'x')}) {
    EXPECT_FALSE(CheckPrefix(bad)) << bad;
  }
}

}  // namespace
TEST(PermitKeys, AreMadeOfTheBucketsNameAloneInTheSlotWhereARateWouldStand) {
  core::Limit rate = MakeLimit("n", 0);
  core::Limit permits = MakeLimit("n", 0);
  permits.params.algorithm = core::Algorithm::kPermits;
  std::set<std::string> keys;
  for (const char* tenant : {"a", "b", "c"}) {
    for (const char* user : {"x", "y{z}"}) {
      const Values values = {tenant, user};
      const Made made = Make(permits, values);
      EXPECT_EQ(made.slot, Make(rate, values).slot);
      keys.insert(made.key);
      std::string readable, key;
      const Hash128 name = BucketKeys("pen:", permits).AppendReadable(readable, values);
      EXPECT_EQ(SlotOfPermits(name), made.slot);
      AppendPermitKey(key, "pen:", name);
      EXPECT_EQ(key, made.key);
      EXPECT_NE(readable.find(tenant), std::string::npos);
      EXPECT_EQ(readable.find('{'), std::string::npos);
      std::string other_readable;
      EXPECT_EQ(BucketKeys("other:", permits).AppendReadable(other_readable, values), name);
      EXPECT_EQ(other_readable, readable);
    }
  }
  EXPECT_EQ(keys.size(), 6u);
}

TEST(PermitKeys, AHashIsReadAsItWasWritten) {
  std::string bytes;
  AppendHash(bytes, {0x0102030405060708, 0xf1f2f3f4f5f6f7f8});
  EXPECT_EQ(bytes.substr(0, 2), "\1\2");
  EXPECT_EQ(TakeHash(bytes.data()), (Hash128{0x0102030405060708, 0xf1f2f3f4f5f6f7f8}));
}

}  // namespace penstock::engine::redis
