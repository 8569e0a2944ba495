#include "child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

namespace penstock::app {
namespace {

ChildOptions Command(std::vector<std::string> words) {
  ChildOptions options;
  options.command = std::move(words);
  ::sigemptyset(&options.signal_mask);
  return options;
}

int CodeOf(ChildProcess& child) {
  for (;;) {
    if (const std::optional<int> code = child.ExitCode()) return *code;
    ::poll(nullptr, 0, 5);
  }
}

int CodeOf(std::vector<std::string> words) {
  tl::expected<ChildProcess, ChildProcess::Failure> child = ChildProcess::Start(Command(std::move(words)));
  return child ? CodeOf(*child) : child.error().exit_code;
}

TEST(ChildProcess, PassesItsCodeOn) {
  EXPECT_EQ(CodeOf({"true"}), 0);
  EXPECT_EQ(CodeOf({"sh", "-c", "exit 42"}), 42);
}

TEST(ChildProcess, DiesOfASignalAsAShellSaysIt) {
  EXPECT_EQ(CodeOf({"sh", "-c", "kill -KILL $$"}), 128 + SIGKILL);
  EXPECT_EQ(CodeOf({"sh", "-c", "kill -TERM $$"}), 128 + SIGTERM);
}

TEST(ChildProcess, SaysWhyItCannotBeRun) {
  EXPECT_EQ(CodeOf({"/nowhere/to/be/found"}), 127);
  EXPECT_EQ(CodeOf({"no-such-command-anywhere"}), 127);
  EXPECT_EQ(CodeOf({"/"}), 126);
  EXPECT_EQ(CodeOf({"/dev/null"}), 126);
}

TEST(ChildProcess, HasWhatIsAddedToTheEnvironment) {
  ChildOptions options = Command({"sh", "-c", "test \"$A_NAME\" = 'a value'"});
  options.environment.emplace_back("A_NAME", "a value");
  tl::expected<ChildProcess, ChildProcess::Failure> child = ChildProcess::Start(options);
  ASSERT_TRUE(child);
  EXPECT_EQ(CodeOf(*child), 0);
}

TEST(ChildProcess, IsEnded) {
  tl::expected<ChildProcess, ChildProcess::Failure> child = ChildProcess::Start(Command({"sleep", "1000"}));
  ASSERT_TRUE(child);
  EXPECT_FALSE(child->ExitCode());
  child->End(SIGTERM);
  EXPECT_EQ(CodeOf(*child), 128 + SIGTERM);
}

TEST(ChildProcess, GetsWhatIsForwarded) {
  tl::expected<ChildProcess, ChildProcess::Failure> child = ChildProcess::Start(Command({"sleep", "1000"}));
  ASSERT_TRUE(child);
  child->Forward(SIGUSR1, false);
  EXPECT_EQ(CodeOf(*child), 128 + SIGUSR1);
}

}  // namespace
}  // namespace penstock::app
