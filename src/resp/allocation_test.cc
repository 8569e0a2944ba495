// The decision path allocates nothing once a connection is warm: every operator new of this test program is counted.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "resp/session.h"

namespace {
size_t allocations = 0;  // the tests of this program run on one thread
}

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace penstock::resp {
namespace {

TEST(Allocation, APipelineAnsweredInOrderAllocatesNothing) {
  const SessionOptions options;
  Session session(options);
  session.Open(1, "");
  std::string pipeline;
  constexpr size_t kCommands = 32;
  for (size_t i = 0; i < kCommands; ++i) {
    AppendCommand(pipeline, {"CL.THROTTLE", "user:000000001234", "15", "30", "60", "1"});
  }
  AppendCommand(pipeline, {"PING"});
  std::vector<ReplyTicket> tickets(kCommands);
  const auto turn = [&] {
    std::memcpy(session.ReceiveSpace().data(), pipeline.data(), pipeline.size());
    session.Received(pipeline.size());
    size_t count = 0;
    for (;;) {
      const Action action = session.Next();
      const Command* command = std::get_if<Command>(&action);
      if (command == nullptr) break;
      tickets[count++] = command->ticket;
    }
    ASSERT_EQ(count, kCommands);
    for (const ReplyTicket ticket : tickets) {
      session.Answer(ticket, [](Writer& writer) { writer.Integers({0, 16, 15, -1, 2}); });
    }
    ASSERT_EQ(session.Output().size(), kCommands * 27 + 7);
    session.Written(session.Output().size());
  };
  turn();
  const size_t before = allocations;
  for (int i = 0; i < 10; ++i) turn();
  EXPECT_EQ(allocations, before);
}

TEST(Allocation, SixteenArgumentsNeedNone) {
  RequestParser parser;
  std::string bytes;
  AppendCommand(bytes, std::vector<std::string_view>(16, "argument"));
  const size_t before = allocations;
  const ParseResult result = parser.Parse(bytes, {});
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(result.status, ParseStatus::kDone);
}

}  // namespace
}  // namespace penstock::resp
