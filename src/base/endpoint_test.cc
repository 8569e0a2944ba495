#include "base/endpoint.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Endpoint, TextComesBackAsItWasWritten) {
  for (const char* text : {"127.0.0.1:8080", "[::1]:0", "0.0.0.0:65535", "[2001:db8::1]:80"}) {
    const Result<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(endpoint->Text(), text);
  }
  EXPECT_EQ(ParseEndpoint("localhost:1")->Text(), "127.0.0.1:1");
  EXPECT_EQ(ParseEndpoint("*:1")->Text(), "0.0.0.0:1");
}

TEST(Endpoint, WhatIsNoEndpointIsRefusedWithTheReason) {
  for (const char* text : {"", ":", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:65536",
                           "::1:80", "[127.0.0.1]:80", "example.com:80", "[::1:80", "127.0.0.1:80 ",
                           "127.0.0.1:8o", "127.0.0.1:000080", "127.0.0.1:-0"}) {
    const Result<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(endpoint.error().message.find(text), std::string::npos);
  }
}

TEST(Endpoint, OnlyThisMachineCanReachLoopback) {
  EXPECT_TRUE(ParseEndpoint("127.0.0.1:1")->IsLoopback());
  EXPECT_TRUE(ParseEndpoint("127.9.9.9:1")->IsLoopback());
  EXPECT_TRUE(ParseEndpoint("[::1]:1")->IsLoopback());
  EXPECT_FALSE(ParseEndpoint("0.0.0.0:1")->IsLoopback());
  EXPECT_FALSE(ParseEndpoint("[::]:1")->IsLoopback());
  EXPECT_FALSE(ParseEndpoint("192.168.0.1:1")->IsLoopback());
}

}  // namespace
}  // namespace penstock
