// A worker that calls a third party which bears only so many calls at once, from the whole fleet. It brings the limiter
// along as a library and shares the semaphore with whoever else names it: other workers, and the service in
// examples/semaphore, which asks over HTTP.
//
//   semaphore_worker [ENGINE_URL]     default memory:, which only this process shares
//
// Prints `ready`, then once a second, on stderr, what it has done. Ends in order on SIGTERM and SIGINT.
#include <penstock/limiter.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;

constexpr int kThreads = 3;  // more than may call at once
constexpr std::string_view kKey = "third-party:pictures";
constexpr penstock::Semaphore kSemaphore{.permits = 2, .lease = milliseconds(10'000)};

struct Counters {
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> busy{0};     // waited in vain
  std::atomic<uint64_t> unasked{0};  // the store did not answer
  std::atomic<uint64_t> lost{0};
};

void Pause(const std::stop_token& stop, milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time;
       !stop.stop_requested() && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(5));
  }
}

// The third party. False: it had to stop, because the permit was lost; somebody else may be calling by now.
bool CallThirdParty(const std::stop_token& lost) {
  Pause(lost, milliseconds(50));
  return !lost.stop_requested();
}

void Work(penstock::Limiter& limiter, const std::stop_token& stop, Counters& counters) {
  for (; !stop.stop_requested(); Pause(stop, milliseconds(200))) {  // the next job comes
    // One question that waits in its turn, not a loop of questions that others overtake.
    const penstock::Acquired got =
        limiter.Acquire(kKey, kSemaphore, {.max_wait = milliseconds(500), .holder = "semaphore_worker"});
    if (got.permit.held()) {
      ++(CallThirdParty(got.permit.lost()) ? counters.done : counters.lost);
    } else if (got.decision.outcome == penstock::Outcome::kUnavailable) {
      // "Could not ask" is neither yes nor no. The third party can be hurt, so it must not mean yes.
      ++counters.unasked;
    } else {
      ++counters.busy;
    }
  }  // here the permit is given back
}

}  // namespace

int main(int count, char** arguments) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);  // before any thread

  penstock::LimiterOptions options;
  if (count > 1) options.engine_url = arguments[1];
  penstock::Expected<penstock::Limiter> limiter = penstock::Limiter::Open(options);
  if (!limiter) {
    std::fprintf(stderr, "semaphore_worker: %s\n", limiter.error().message.c_str());
    return 1;
  }
  std::printf("ready permits=%lld\n", static_cast<long long>(kSemaphore.permits));
  std::fflush(stdout);

  Counters counters;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&](const std::stop_token& stop) { Work(*limiter, stop, counters); });
  }
  for (const timespec second{1, 0}; sigtimedwait(&ends, nullptr, &second) < 0;) {
    std::fprintf(
        stderr, "done=%llu busy=%llu unasked=%llu lost=%llu\n",
        static_cast<unsigned long long>(counters.done), static_cast<unsigned long long>(counters.busy),
        static_cast<unsigned long long>(counters.unasked), static_cast<unsigned long long>(counters.lost));
  }
  return 0;  // the threads are asked to stop, and joined
}
