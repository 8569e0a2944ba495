// The tests of this folder need a real Redis: without one they are skipped as a whole (exit 77), and it is said.
#include <gtest/gtest.h>

#include <cstdio>

#include "redis/redis_server.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!penstock::fixtures::RedisServer::Program()) {
    std::printf("skipped: %s\n", penstock::fixtures::RedisServer::Missing().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
