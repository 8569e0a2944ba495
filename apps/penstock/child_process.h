// A command that runs under ours: started, signalled, waited for.
//
// Where there is no terminal it gets a process group of its own, and what is to end it reaches all of that group. With a
// terminal it stays in ours: Ctrl-C and Ctrl-Z reach both, as in a pipeline, and what the terminal has sent is not sent
// again.
//
// Thread contract: started while the process has one thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace penstock::app {

struct ChildOptions {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // added
  sigset_t signal_mask{};                                        // of the command
  bool ends_with_us = false;                                     // it gets TERM if we die, however we do
};

class ChildProcess {
 public:
  static constexpr int kNotExecutable = 126;
  static constexpr int kNotFound = 127;

  struct Failure {
    int exit_code = kNotFound;
    std::string message;
  };
  // A Failure where the command cannot be run.
  static tl::expected<ChildProcess, Failure> Start(const ChildOptions& options);

  // A signal that we got, passed on.
  void Forward(int signal, bool from_terminal) const;
  // To all of its group where that is its own.
  void End(int signal) const;
  // What a shell would say of it once it has ended: its code, or 128 + signal.
  std::optional<int> ExitCode();

 private:
  ChildProcess(pid_t pid, bool own_group) : pid_(pid), own_group_(own_group) {}

  pid_t pid_;
  bool own_group_;
};

}  // namespace penstock::app
