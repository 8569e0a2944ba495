#include "server/worker.h"

#include <future>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "net/dialer.h"
#include "server/http_driver.h"
#include "server/resp_driver.h"

namespace penstock::server {

namespace {

service::DeciderOptions WithTimer(service::DeciderOptions options, Timer& timer) {
  options.timer = &timer;
  return options;
}

}  // namespace

WorkerLimits::Done WorkerLimits::Back(Done done) {
  return [this, done = std::move(done)](Result<engine::RegisteredLimit> changed) {
    if (changed) {
      const std::string what = changed->definition.empty() ? " removed" : changed->put ? " set" : " unset";
      Log(LogLevel::kInfo, "limit " + changed->domain + "/" + changed->name + what +
                               " at run time, version " + std::to_string(changed->version));
    }
    loop_.Post([done, changed = std::move(changed)] { done(changed); });
  };
}

void WorkerLimits::Put(std::string domain, std::string name, std::string body,
                       std::optional<core::Version> if_match, Done done) {
  shared_.limits_loop->Post(
      [this, domain = std::move(domain), name = std::move(name), body = std::move(body), if_match,
       done = Back(std::move(done))] { shared_.limits->Put(domain, name, body, if_match, done); });
}

void WorkerLimits::Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
                          Done done) {
  shared_.limits_loop->Post(
      [this, domain = std::move(domain), name = std::move(name), if_match, done = Back(std::move(done))] {
        shared_.limits->Remove(domain, name, if_match, done);
      });
}

Worker::Worker(Shared& shared)
    : shared_(shared),
      http_session_(shared.http_session),
      loop_(shared.clock),
      dialer_(net::NewDialer(loop_)),
      session_(shared.engine.OpenLoop({loop_, loop_, dialer_.get()})),
      decider_(shared.engine, *session_, loop_, shared.clock, shared.policies, shared.metrics.AddLoop(),
               WithTimer(shared.decider, loop_)),
      limits_(shared, loop_),
      http_(decider_, shared.clock, shared.http_api, shared.view, &limits_),
      resp_(decider_, shared.clock) {
  http_session_.date = &date_;
  WriteDate();
}

Worker::~Worker() { Stop(); }

Result<void> Worker::Listen(const Endpoint& endpoint, net::ListenerOptions options) {
  Result<int> socket = net::OpenListeningSocket(endpoint);
  if (!socket) return tl::unexpected(std::move(socket.error()));
  options.tls = shared_.tls;
  listeners_.push_back(std::make_unique<net::Listener>(loop_, *socket, std::move(options)));
  return {};
}

Result<void> Worker::ListenHttp(const Endpoint& endpoint) {
  net::ListenerOptions options;
  options.limits = shared_.http_limits;
  options.stats = &shared_.http_stats;
  options.factory = [this] { return std::make_unique<HttpDriver>(http_session_, http_); };
  return Listen(endpoint, std::move(options));
}

Result<void> Worker::ListenResp(const Endpoint& endpoint) {
  net::ListenerOptions options;
  options.limits = shared_.resp_limits;
  options.stats = &shared_.resp_stats;
  options.factory = [this] {
    return std::make_unique<RespDriver>(shared_.resp_session, resp_, shared_.last_connection_id);
  };
  return Listen(endpoint, std::move(options));
}

void Worker::WriteDate() {
  date_.clear();
  http::AppendHttpDate(date_, shared_.clock.Now().us / 1'000'000);
}

void Worker::KeepDate() {
  WriteDate();
  const Micros to_next_second{1'000'000 - shared_.clock.Now().us % 1'000'000};
  loop_.Schedule(shared_.clock.Steady() + to_next_second, [this] { KeepDate(); });
}

Result<void> Worker::Start() {
  if (!loop_.ready()) return Fail(ErrorKind::kUnavailable, "no file descriptors for another event loop");
  try {
    thread_ = std::thread([this] { loop_.Run(); });
  } catch (const std::system_error& error) {
    return Fail(ErrorKind::kUnavailable, std::string("no thread for another event loop: ") + error.what());
  }
  return {};
}

Result<void> Worker::Accept() {
  std::promise<Result<void>> started;
  loop_.Post([this, &started] {
    KeepDate();
    Result<void> result;
    for (const auto& listener : listeners_) {
      if (result) result = listener->Start();
    }
    started.set_value(std::move(result));
  });
  return started.get_future().get();
}

void Worker::Drain() {
  loop_.Post([this] {
    for (const auto& listener : listeners_) listener->Drain();
    decider_.Drain();  // else who waits for a permit is closed on without an answer
    drained_.store(true, std::memory_order_release);
  });
}

void Worker::CloseAll() {
  loop_.Post([this] {
    for (const auto& listener : listeners_) listener->CloseAll();
  });
}

void Worker::Stop() {
  if (!thread_.joinable()) return;
  loop_.Post([this] {
    session_->Close();
    decider_.Close();
    loop_.Stop();
  });
  thread_.join();
}

}  // namespace penstock::server
