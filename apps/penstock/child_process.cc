#include "child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace penstock::app {
namespace {

constexpr int kSignalled = 128;

bool HasTerminal() {
  const int fd = ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

// In the child. The errno of what cannot be run goes into `failure`, which a command that runs closes.
[[noreturn]] void Become(const ChildOptions& options, pid_t parent, bool own_group, int failure) {
  if (own_group) ::setpgid(0, 0);
  if (options.ends_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(kSignalled + SIGTERM);
  }
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof error);
  ::_exit(ChildProcess::kNotFound);
}

}  // namespace

tl::expected<ChildProcess, ChildProcess::Failure> ChildProcess::Start(const ChildOptions& options) {
  const auto fail = [&](int error) {
    return tl::unexpected(Failure{error == ENOENT ? kNotFound : kNotExecutable,
                                  "cannot run '" + options.command.front() + "': " + std::strerror(error)});
  };
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) return fail(errno);
  const bool own_group = !HasTerminal();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Become(options, parent, own_group, failure[1]);
  const int fork_error = errno;
  ::close(failure[1]);
  // Here, too: whichever comes first, and before anybody signals the group.
  if (pid > 0 && own_group) ::setpgid(pid, pid);
  int error = 0;
  ssize_t n = 0;
  do n = ::read(failure[0], &error, sizeof error);
  while (n < 0 && errno == EINTR);
  ::close(failure[0]);
  if (pid < 0) return fail(fork_error);
  if (n == 0) return ChildProcess(pid, own_group);
  ::waitpid(pid, nullptr, 0);
  return fail(error);
}

void ChildProcess::Forward(int signal, bool from_terminal) const {
  if (from_terminal && !own_group_) return;
  // What asks a job to end is for all of it, as from a terminal; the rest means something to the command alone.
  if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT) return End(signal);
  ::kill(pid_, signal);
}

void ChildProcess::End(int signal) const { ::kill(own_group_ ? -pid_ : pid_, signal); }

std::optional<int> ChildProcess::ExitCode() {
  for (;;) {
    int status = 0;
    // Whoever it is: as process 1 of a container we inherit orphans.
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    if (ended <= 0) return std::nullopt;
    if (ended != pid_) continue;
    return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

}  // namespace penstock::app
