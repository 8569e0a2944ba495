// The life of a server process: starts it, says that it is ready, waits for signals, stops it in order.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "server/options.h"
#include "server/server.h"

namespace penstock::server {

enum ExitCode : int { kExitFine = 0, kExitFailed = 1, kExitUsage = 2, kExitUnavailable = 3 };

struct RunHooks {
  // Called when the server answers; what it returns is added to the ready line.
  std::function<std::string(Server&)> started;
  // Called before it stops.
  std::function<void()> stopping;
};

// Main thread only, before any other thread is started. Prints the ready line on stdout, errors and logs on stderr.
// The exit code: 0 after an ordered stop, 2 when it cannot start with these options, 3 when what it needs is not to
// be had (a port in use), 1 when the last snapshot could not be written.
int Run(const Options& options, const Clock& clock, const RunHooks& hooks = {});

}  // namespace penstock::server
