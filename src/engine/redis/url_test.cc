#include <gtest/gtest.h>

#include <string>

#include "engine/redis/options.h"

namespace penstock::engine::redis {
namespace {

Options Good(std::string_view url) {
  const Result<Options> options = ParseUrl(url);
  EXPECT_TRUE(options) << url << ": " << (options ? "" : options.error().message);
  return options ? *options : Options{};
}

void ExpectError(std::string_view url, std::string_view part) {
  const Result<Options> options = ParseUrl(url);
  ASSERT_FALSE(options) << url;
  EXPECT_EQ(options.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(options.error().message.find(part), std::string::npos) << url << ": " << options.error().message;
  EXPECT_EQ(options.error().message.find("s3cret"), std::string::npos) << options.error().message;
}

TEST(ParseUrl, OneServer) {
  const Options options = Good("redis://store");
  EXPECT_EQ(options.topology, TopologyKind::kSingle);
  ASSERT_EQ(options.seeds.size(), 1u);
  EXPECT_EQ(options.seeds[0].host, "store");
  EXPECT_EQ(options.seeds[0].port, 6379);
  EXPECT_FALSE(options.seeds[0].tls);
  EXPECT_EQ(options.database, 0);
  EXPECT_EQ(options.user, "");
  EXPECT_EQ(options.password, "");
  EXPECT_EQ(Good("redis://store:7000/15").database, 15);
  EXPECT_EQ(Good("redis://store:7000/").seeds[0].port, 7000);
  EXPECT_EQ(Good("redis://store?db=2").database, 2);
}

TEST(ParseUrl, UserAndPasswordAreDecoded) {
  const Options options = Good("redis://p%65n:a%3Ab%40c%2f%25:d@10.0.0.1:7000/1");
  EXPECT_EQ(options.user, "pen");
  EXPECT_EQ(options.password, "a:b@c/%:d");
  EXPECT_EQ(options.seeds[0].host, "10.0.0.1");
  EXPECT_EQ(Good("redis://:s3cret@h").password, "s3cret");
  EXPECT_EQ(Good("redis://:s3cret@h").user, "");
  EXPECT_EQ(Good("redis://u:a@b@h").password, "a@b");  // the last one divides
}

TEST(ParseUrl, ValkeysNamesMeanTheSame) {
  EXPECT_EQ(Good("valkey://h:7000/2").seeds[0].port, 7000);
  EXPECT_TRUE(Good("valkeys://h").seeds[0].tls);
  EXPECT_EQ(Good("valkey+cluster://a,b").topology, TopologyKind::kCluster);
  ExpectError("valkeyx://h", "the scheme 'valkeyx'");
}

TEST(ParseUrl, AnIpv6AddressStandsInBrackets) {
  EXPECT_EQ(Good("redis://[::1]").seeds[0].host, "::1");
  EXPECT_EQ(Good("redis://u:p@[2001:db8::1]:7000/1").seeds[0].port, 7000);
  EXPECT_EQ(Good("redis+cluster://[::1]:1,[::2],h:3").seeds[1].host, "::2");
}

TEST(ParseUrl, TlsTakesItsFilesAndName) {
  const Options options = Good("rediss://h?ca=/etc/ca%20s.pem&cert=/c&key=/k&name=store.example");
  EXPECT_TRUE(options.seeds[0].tls);
  EXPECT_EQ(options.seeds[0].tls_ca, "/etc/ca s.pem");
  EXPECT_EQ(options.seeds[0].tls_cert, "/c");
  EXPECT_EQ(options.seeds[0].tls_key, "/k");
  EXPECT_EQ(options.seeds[0].tls_name, "store.example");
  EXPECT_TRUE(Good("rediss+cluster://a,b").seeds[1].tls);
}

TEST(ParseUrl, SentinelsAndTheirMaster) {
  const Options options =
      Good("redis+sentinel://u:p@s1,s2:26380/my%20master/3?sentinel_user=su&sentinel_password=sp%26");
  EXPECT_EQ(options.topology, TopologyKind::kSentinel);
  ASSERT_EQ(options.seeds.size(), 2u);
  EXPECT_EQ(options.seeds[0].port, 26379);
  EXPECT_EQ(options.seeds[1].port, 26380);
  EXPECT_EQ(options.master_name, "my master");
  EXPECT_EQ(options.database, 3);
  EXPECT_EQ(options.password, "p");
  EXPECT_EQ(options.sentinel_user, "su");
  EXPECT_EQ(options.sentinel_password, "sp&");
  EXPECT_TRUE(Good("rediss+sentinel://s/m").seeds[0].tls);
}

TEST(ParseUrl, AClustersNodes) {
  const Options options = Good("redis+cluster://a:1,b,c:3");
  EXPECT_EQ(options.topology, TopologyKind::kCluster);
  ASSERT_EQ(options.seeds.size(), 3u);
  EXPECT_EQ(options.seeds[1].port, 6379);
  EXPECT_EQ(options.seeds[2].Text(), "c:3");
  EXPECT_EQ(Good("redis+cluster://a/0").database, 0);
}

TEST(ParseUrl, AUnixSocket) {
  EXPECT_EQ(Good("unix:///run/redis.sock?db=4").seeds[0].path, "/run/redis.sock");
  EXPECT_EQ(Good("unix:///run/redis.sock?db=4").database, 4);
  const Options options = Good("unix://u:s3cret@/run/a%20b.sock");
  EXPECT_EQ(options.seeds[0].path, "/run/a b.sock");
  EXPECT_EQ(options.password, "s3cret");
}

TEST(ParseUrl, ErrorsNameThePartAndNoSecret) {
  ExpectError("", "no scheme");
  ExpectError("rediz://u:s3cret@h", "scheme 'rediz'");
  ExpectError("u:s3cret@h", "no scheme");
  ExpectError("redis://", "a host is missing");
  ExpectError("redis://u:s3cret@", "a host is missing");
  ExpectError("redis://h:0", "port of 'h'");
  ExpectError("redis://h:65536", "port of 'h'");
  ExpectError("redis://h:", "port of 'h'");
  ExpectError("redis://u:s3cret", "port of 'u'");
  ExpectError("redis://u:s3cret:", "several colons");
  ExpectError("redis://h:6379x", "port of 'h'");
  ExpectError("redis://::1", "several colons");
  ExpectError("redis://[::1", "']'");
  ExpectError("redis://[h]", "no IPv6 address");
  ExpectError("redis://[1.2.3.4]", "no IPv6 address");
  ExpectError("redis://[::1]6379", "more than a port");
  ExpectError("redis://a b", "characters");
  ExpectError("redis://h/x", "database 'x'");
  ExpectError("redis://h/-1", "database '-1'");
  ExpectError("redis://h/1?db=2", "both");
  ExpectError("redis://h/1/2", "database '1/2'");
  ExpectError("redis://a,b", "redis+cluster");
  ExpectError("redis://user@h", "no password");
  ExpectError("redis://user:@h", "no password");
  ExpectError("redis://u:s3cret%2@h", "'%' in the password");
  ExpectError("redis://u%zz:s3cret@h", "'%' in the user");
  ExpectError("redis://u:s3/cret@h", "%2F");
  ExpectError("redis://u:s3cret#@h", "%23");
  ExpectError("redis://h?ca=/x", "needs TLS");
  ExpectError("rediss://h?key=/x", "needs 'cert'");
  ExpectError("rediss://h?cert", "has no value");
  ExpectError("rediss://h?crt=/x", "did you mean cert?");
  ExpectError("rediss://h?pasword=s3cret", "unknown option 'pasword'");
  ExpectError("rediss://h?ca=/x&ca=/y", "twice");
  ExpectError("redis://h?sentinel_password=s3cret", "redis+sentinel");
  ExpectError("redis+sentinel://s", "master's name is missing");
  ExpectError("redis+sentinel://s/m?sentinel_user=u", "sentinel_password");
  ExpectError("redis+sentinel://s/m/x", "database 'x'");
  ExpectError("redis+cluster://a/1", "no database but 0");
  ExpectError("redis+cluster://a,,b", "a host is missing");
  ExpectError("unix://run/redis.sock", "whole path");
  ExpectError("unix:///", "whole path");
  ExpectError("redis://h" + std::string(5'000, 'x'), "longer than");
  std::string many = "redis+cluster://h";
  for (int i = 0; i < 64; ++i) many += ",h";
  ExpectError(many, "more than 64 hosts");
}

}  // namespace
}  // namespace penstock::engine::redis
