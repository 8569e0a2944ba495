#include "net/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "net/socket_address.h"

namespace penstock::net {
namespace {

SteadyTime Now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return {now.tv_sec * 1'000'000 + now.tv_nsec / 1'000};
}

Resolved AskSystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  Resolved out;
  if (const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); failed != 0) {
    out.error = failed == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(failed);
    return out;
  }
  for (const addrinfo* it = found; it != nullptr && out.addresses.size() < kMaxAddresses; it = it->ai_next) {
    SocketAddress address;
    if (it->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, it->ai_addr, it->ai_addrlen);
    if (const std::optional<IpAddress> ip = address.address()) out.addresses.push_back(*ip);
  }
  ::freeaddrinfo(found);
  if (out.addresses.empty()) out.error = "the name has no IP address";
  return out;
}

class Resolver {
 public:
  void Resolve(const std::string& host, std::function<void(const Resolved&)> done) EXCLUDES(mutex_) {
    const Resolved at_once = Begin(host, done);
    if (done) done(at_once);
  }

 private:
  struct Kept {
    Resolved answer;
    SteadyTime until;
  };
  struct Lookup {
    std::string host;
    std::function<void(const Resolved&)> done;
  };

  // The answer, or `done` taken and emptied.
  Resolved Begin(const std::string& host, std::function<void(const Resolved&)>& done) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto kept = kept_.find(host);
    if (kept != kept_.end() && Now() < kept->second.until) return kept->second.answer;
    if (waiting_.size() >= kMaxLookups) return {{}, "too many names are being looked up"};
    if (!running_) {
      try {
        std::thread([this] { Run(); }).detach();
      } catch (const std::system_error& error) {
        return {{}, std::string("no thread to look a name up: ") + error.what()};
      }
      running_ = true;
    }
    waiting_.push_back({host, std::exchange(done, nullptr)});
    return {};
  }

  std::optional<Lookup> Next() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (waiting_.empty()) {
      running_ = false;
      return std::nullopt;
    }
    Lookup next = std::move(waiting_.front());
    waiting_.pop_front();
    return next;
  }

  std::optional<Resolved> Known(const std::string& host) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto kept = kept_.find(host);
    if (kept == kept_.end() || Now() >= kept->second.until) return std::nullopt;
    return kept->second.answer;
  }

  void Keep(const std::string& host, const Resolved& answer) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (kept_.size() >= kMaxKeptLookups) kept_.clear();
    kept_[host] = {answer, Now() + (answer.addresses.empty() ? kKeepUnresolved : kKeepResolved)};
  }

  void Run() {
    while (const std::optional<Lookup> next = Next()) {
      // Another that waited before it may have asked the same.
      std::optional<Resolved> answer = Known(next->host);
      if (!answer) {
        answer = AskSystem(next->host);
        Keep(next->host, *answer);
      }
      next->done(*answer);
    }
  }

  Mutex mutex_;
  bool running_ GUARDED_BY(mutex_) = false;
  std::deque<Lookup> waiting_ GUARDED_BY(mutex_);
  std::map<std::string, Kept> kept_ GUARDED_BY(mutex_);
};

}  // namespace

void Resolve(const std::string& host, std::function<void(const Resolved&)> done) {
  // Never destroyed: its thread may still wait for the system when the process ends.
  static Resolver* const resolver = new Resolver;
  resolver->Resolve(host, std::move(done));
}

}  // namespace penstock::net
