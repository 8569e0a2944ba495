#include "http/forwarded.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/request_parser.h"

namespace penstock::http {
namespace {

std::string Text(const std::optional<IpAddress>& address) {
  if (!address) return "none";
  std::string out;
  address->AppendText(out);
  return out;
}

// The client's address, for a peer that is (not) trusted and the X-Forwarded-For lines.
std::string Client(std::string_view peer, const std::vector<std::string>& lines) {
  const Cidr trusted[] = {*Cidr::Parse("127.0.0.0/8"), *Cidr::Parse("10.0.0.0/8"), *Cidr::Parse("fd00::/8")};
  std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (const auto& line : lines) bytes += "X-Forwarded-For: " + line + "\r\nX-Other: x\r\n";
  bytes += "\r\n";
  RequestParser parser;
  EXPECT_EQ(parser.Parse(bytes).status, RequestParser::Status::kRequest);
  return Text(ClientAddress(*ParseAddress(peer), parser.request(), trusted));
}

TEST(Forwarded, HopsAreAddressesWithOrWithoutPort) {
  EXPECT_EQ(Text(ParseHop("192.0.2.1")), "192.0.2.1");
  EXPECT_EQ(Text(ParseHop("192.0.2.1:8080")), "192.0.2.1");
  EXPECT_EQ(Text(ParseHop("2001:db8::1")), "2001:db8::1");
  EXPECT_EQ(Text(ParseHop("[2001:db8::1]")), "2001:db8::1");
  EXPECT_EQ(Text(ParseHop("[2001:db8::1]:443")), "2001:db8::1");
  EXPECT_EQ(Text(ParseHop("::ffff:192.0.2.1")), "192.0.2.1");
  for (const std::string_view text :
       {"", "unknown", "_hidden", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:65536", "192.0.2.1:-1",
        "[192.0.2.1]", "[::1", "[::1]x", "[::1]:", "[]", "::1]"}) {
    EXPECT_EQ(Text(ParseHop(text)), "none") << text;
  }
}

TEST(Forwarded, AnUntrustedPeerIsTheClientWhateverItSays) {
  EXPECT_EQ(Client("192.0.2.9", {"1.1.1.1"}), "192.0.2.9");
}

TEST(Forwarded, TheRightmostUntrustedHopIsTheClient) {
  EXPECT_EQ(Client("127.0.0.1", {}), "127.0.0.1");
  EXPECT_EQ(Client("127.0.0.1", {"192.0.2.1"}), "192.0.2.1");
  EXPECT_EQ(Client("127.0.0.1", {"6.6.6.6, 192.0.2.1, 10.1.1.1"}), "192.0.2.1");
  EXPECT_EQ(Client("127.0.0.1", {"6.6.6.6 ,192.0.2.1:50 ,\t10.1.1.1"}), "192.0.2.1");
  EXPECT_EQ(Client("fd00::1", {"6.6.6.6, [2001:db8::5]:1234"}), "2001:db8::5");
  EXPECT_EQ(Client("::ffff:127.0.0.1", {"::ffff:192.0.2.1"}), "192.0.2.1");
}

TEST(Forwarded, SeveralLinesAreOneList) {
  EXPECT_EQ(Client("127.0.0.1", {"6.6.6.6", "192.0.2.1, 10.0.0.2", "10.0.0.3"}), "192.0.2.1");
  EXPECT_EQ(Client("127.0.0.1", {"192.0.2.1", "10.0.0.2"}), "192.0.2.1");
}

TEST(Forwarded, WhereNothingUntrustedIsReadTheLastAddressCounts) {
  EXPECT_EQ(Client("127.0.0.1", {"10.0.0.1, 10.0.0.2"}), "10.0.0.1");
  EXPECT_EQ(Client("127.0.0.1", {"192.0.2.1, unknown, 10.0.0.2"}), "10.0.0.2");
  EXPECT_EQ(Client("127.0.0.1", {"192.0.2.1, unknown"}), "127.0.0.1");
  EXPECT_EQ(Client("127.0.0.1", {" , ,192.0.2.1, ,"}), "192.0.2.1");
}

}  // namespace
}  // namespace penstock::http
