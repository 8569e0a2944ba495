#include "server/worker.h"

#include <future>
#include <system_error>
#include <utility>

#include "net/dialer.h"
#include "server/http_driver.h"
#include "server/resp_driver.h"

namespace penstock::server {

Worker::Worker(Shared& shared)
    : shared_(shared),
      http_session_(shared.http_session),
      loop_(shared.clock),
      dialer_(net::NewDialer(loop_)),
      session_(shared.engine.OpenLoop({loop_, loop_, dialer_.get()})),
      decider_(shared.engine, *session_, loop_, shared.clock, shared.policies, shared.metrics.AddLoop(),
               shared.decider),
      http_(decider_, shared.clock, shared.http_api, shared.view),
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
    loop_.Stop();
  });
  thread_.join();
}

}  // namespace penstock::server
