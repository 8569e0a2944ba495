// For tests: an event loop and a network worked by hand. Streams keep what was written to them and are told what comes;
// time stands still until a test moves it.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/dialer.h"
#include "base/executor.h"

namespace penstock::engine::redis::by_hand {

class FakeLoop final : public Executor, public Timer {
 public:
  explicit FakeLoop(ManualClock& clock) : clock_(clock) {}

  void Post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  Id Schedule(SteadyTime at, std::function<void()> task) override {
    due_.emplace(std::pair(at.us, ++last_id_), std::move(task));
    ++scheduled;
    return last_id_;
  }
  void Cancel(Id id) override {
    std::erase_if(due_, [id](const auto& timer) { return timer.first.second == id; });
  }

  // Runs what was posted and is due, until nothing is.
  void Run() {
    for (;;) {
      if (!tasks_.empty()) {
        for (const auto& task : std::exchange(tasks_, {})) task();
      } else if (!due_.empty() && due_.begin()->first.first <= clock_.Steady().us) {
        const auto task = std::move(due_.begin()->second);
        due_.erase(due_.begin());
        task();
      } else {
        return;
      }
    }
  }
  // Moves time on, from timer to timer.
  void Advance(Micros by) {
    const SteadyTime end = clock_.Steady() + by;
    Run();
    while (!due_.empty() && due_.begin()->first.first <= end.us) {
      clock_.Advance(Micros{due_.begin()->first.first - clock_.Steady().us});
      Run();
    }
    clock_.Advance(end - clock_.Steady());
    Run();
  }
  size_t timers() const { return due_.size(); }

  size_t scheduled = 0;  // ever

 private:
  ManualClock& clock_;
  std::vector<std::function<void()>> tasks_;
  std::map<std::pair<int64_t, Id>, std::function<void()>> due_;
  Id last_id_ = 0;
};

class FakeDialer;

class FakeStream final : public Stream {
 public:
  FakeStream(FakeDialer& dialer, DialTarget target, StreamHandler& handler);
  ~FakeStream() override;
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void Write(std::string_view bytes) noexcept override {
    written_ += bytes;
    ++writes;
  }
  size_t unsent() const noexcept override { return stuck ? written_.size() - taken_ : 0; }

  // What was written since the last call; while `stuck` it counts as taken by the kernel only then.
  std::string Take() {
    std::string out = written_.substr(taken_);
    taken_ = written_.size();
    return out;
  }

  const DialTarget target;
  StreamHandler& handler;
  bool stuck = false;  // the kernel takes nothing by itself
  size_t writes = 0;

 private:
  FakeDialer& dialer_;
  std::string written_;
  size_t taken_ = 0;
};

class FakeDialer final : public Dialer {
 public:
  std::unique_ptr<Stream> Dial(const DialTarget& target, StreamHandler& handler) override {
    ++dialled;
    return std::make_unique<FakeStream>(*this, target, handler);
  }
  bool Has(const FakeStream* stream) const {
    return std::find(streams.begin(), streams.end(), stream) != streams.end();
  }
  // Gives bytes to the stream, as many at once as it takes; stops if the stream goes away meanwhile.
  void Feed(FakeStream* stream, std::string_view bytes) {
    while (!bytes.empty() && Has(stream)) {
      const auto space = stream->handler.ReceiveSpace();
      const size_t count = std::min(space.size(), bytes.size());
      std::memcpy(space.data(), bytes.data(), count);
      bytes.remove_prefix(count);
      stream->handler.Received(count);
    }
  }

  std::vector<FakeStream*> streams;  // that are there, in order of dialling
  int dialled = 0;
};

inline FakeStream::FakeStream(FakeDialer& dialer, DialTarget to, StreamHandler& who)
    : target(std::move(to)), handler(who), dialer_(dialer) {
  dialer_.streams.push_back(this);
}
inline FakeStream::~FakeStream() { std::erase(dialer_.streams, this); }

// The commands in a byte string that holds whole ones, each as its arguments.
inline std::vector<std::vector<std::string>> Commands(std::string_view bytes) {
  const auto number = [&bytes](char mark) {
    const size_t end = bytes.find("\r\n");
    if (bytes.empty() || bytes.front() != mark || end == std::string_view::npos) return size_t{0};
    const size_t value = std::stoul(std::string(bytes.substr(1, end - 1)));
    bytes.remove_prefix(end + 2);
    return value;
  };
  std::vector<std::vector<std::string>> out;
  while (!bytes.empty()) {
    const size_t count = number('*');
    if (count == 0) break;
    std::vector<std::string>& command = out.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      const size_t length = number('$');
      command.emplace_back(bytes.substr(0, length));
      bytes.remove_prefix(std::min(bytes.size(), length + 2));
    }
  }
  return out;
}

}  // namespace penstock::engine::redis::by_hand
