#include "server/signals.h"

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace penstock::server {
namespace {

sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGTERM, SIGINT}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = OurSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Signal WaitForSignal(Micros at_most) {
  const sigset_t signals = OurSignals();
  timespec wait{};
  wait.tv_sec = at_most.count / 1'000'000;
  wait.tv_nsec = at_most.count % 1'000'000 * 1'000;
  switch (sigtimedwait(&signals, nullptr, &wait)) {
    case SIGHUP:
      return Signal::kReload;
    case SIGTERM:
    case SIGINT:
      return Signal::kStop;
    default:
      return Signal::kNone;  // time is up, or EINTR
  }
}

}  // namespace penstock::server
