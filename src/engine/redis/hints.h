// Hints: what a script that changed something publishes in the same step, so that other nodes need not wait until they
// ask by themselves. A hint is never more than that: who hears one asks the store, and one that is lost costs time alone.
//
// All have one channel, `<prefix>hints`; a message is `<kind> <what>`. One connection of the process hears them
// (hint_line.h), and everyone who listens for the kind is told on their own loop.
//
// Thread contract: any thread, but a Listening belongs to the thread of its executor.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/mutex.h"

namespace penstock::engine::redis {

enum class HintKind : uint8_t {
  kLimits,   // `limits <version>`: the registry gave this version, or one below
  kPermits,  // `permits <id> …`: who waits under these (32 hexadecimal digits each) would be granted now
};
inline constexpr std::array<std::string_view, 2> kHintNames = {"limits",
                                                               "permits"};  // by kind; lua/ has the same

struct HintStats {
  std::array<std::atomic<uint64_t>, kHintNames.size()> heard{};  // by kind
  std::atomic<uint64_t> unknown{0};                              // of kinds that this build does not know
  std::atomic<uint64_t> subscribed{0};                           // how often
  std::atomic<uint64_t> lost{0};                                 // subscriptions that broke
  std::atomic<uint64_t> refused{0};                              // for want of a right
  std::atomic<int64_t> listening{0};                             // at present: 0 or 1
};

class Hints {
 public:
  // `what` is empty where hints may have been missed: anything may have changed.
  using Heard = std::function<void(std::string_view what)>;

  // Ends by its destructor, after which nothing is heard.
  class Listening {
   public:
    Listening(Hints& hints, HintKind kind, Executor& executor, Heard heard);
    ~Listening();
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

   private:
    friend class Hints;
    Hints& hints_;
    const HintKind kind_;
    Executor& executor_;
    const std::shared_ptr<const Heard> heard_;  // a task that is posted looks whether it is still there
  };

  explicit Hints(std::string_view prefix) : channel_(std::string(prefix) + "hints") {}

  // Both outlive what is returned. The callback may end it.
  std::unique_ptr<Listening> Listen(HintKind kind, Executor& executor, Heard heard) {
    return std::make_unique<Listening>(*this, kind, executor, std::move(heard));
  }

  // Of the line.
  const std::string& channel() const { return channel_; }
  bool wanted() const EXCLUDES(mutex_);  // somebody listens
  void Tell(std::string_view message) EXCLUDES(mutex_);
  void TellMissed() EXCLUDES(mutex_);  // everyone
  HintStats& stats() { return stats_; }
  const HintStats& stats() const { return stats_; }
  // One loop of the process has the connection. False: another one does.
  bool TakeSeat() { return !taken_.exchange(true); }
  void LeaveSeat() { taken_.store(false); }

 private:
  void Post(const Listening& listening, std::string_view what) const REQUIRES(mutex_);

  const std::string channel_;
  HintStats stats_;
  std::atomic<bool> taken_{false};
  mutable Mutex mutex_;
  std::vector<const Listening*> listenings_ GUARDED_BY(mutex_);
};

}  // namespace penstock::engine::redis
