#include "server/run.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "server/signals.h"

namespace penstock::server {
namespace {

constexpr Micros kTick = Millis(200);
constexpr Micros kDrainLook = Millis(5);

int FailedToStart(const Error& error) {
  std::fprintf(stderr, "penstock: %s\n", error.message.c_str());
  return error.kind == ErrorKind::kConflict || error.kind == ErrorKind::kUnavailable ? kExitUnavailable
                                                                                     : kExitUsage;
}

bool StopInOrder(Server& server, Micros deadline) {
  // Real time, whatever clock the server decides by: nobody moves a deadline of the process by hand.
  using SteadyClock = std::chrono::steady_clock;
  const auto end = SteadyClock::now() + std::chrono::microseconds(deadline.count);
  return server.Stop([end] {
    if (WaitForSignal(kDrainLook) == Signal::kStop) {
      Log(LogLevel::kWarning, "stopped at once by a second signal");
      ::_exit(kExitFailed);
    }
    if (SteadyClock::now() < end) return false;
    Log(LogLevel::kWarning, "closing connections that did not finish in time");
    return true;
  });
}

}  // namespace

int Run(const Options& options, const Clock& clock, const RunHooks& hooks) {
  BlockSignals();
  Result<std::unique_ptr<Server>> started = Server::Start(options, clock);
  if (!started) return FailedToStart(started.error());
  Server& server = **started;
  std::string line = server.ReadyLine();
  if (hooks.started) line += hooks.started(server);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  for (;;) {
    const Signal signal = WaitForSignal(kTick);
    if (signal == Signal::kStop) break;
    if (signal == Signal::kReload) server.Reload();
    server.Tick();
  }
  Log(LogLevel::kInfo, "stopping");
  if (hooks.stopping) hooks.stopping();
  return StopInOrder(server, options.drain) ? kExitFine : kExitFailed;
}

}  // namespace penstock::server
