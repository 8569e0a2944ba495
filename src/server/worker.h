// One event loop with all that belongs to it and to nobody else: the engine's session, the decider, the handlers and
// the listeners. Nothing on the way of a decision leaves it.
//
// Thread contract: built and destroyed on the main thread while the loop does not run. Start, Drain, CloseAll and
// Stop from the main thread; what they do happens on the loop.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/http_api.h"
#include "api/resp_api.h"
#include "api/server_view.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "http/session.h"
#include "net/dialer.h"
#include "net/endpoint.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/tls.h"
#include "resp/session.h"
#include "service/decider_impl.h"
#include "service/limit_keeper.h"
#include "service/metrics.h"
#include "service/policy_store.h"

namespace penstock::server {

// What all workers share. Outlives them; constant, or any thread's.
struct Shared {
  Shared(const Clock& c, engine::Engine& e, service::Metrics& m, service::PolicyStore& p,
         const api::ServerView& v)
      : clock(c), engine(e), metrics(m), policies(p), view(v) {}

  const Clock& clock;
  engine::Engine& engine;
  service::Metrics& metrics;
  service::PolicyStore& policies;
  const api::ServerView& view;
  service::DeciderOptions decider;
  http::SessionOptions http_session;
  resp::SessionOptions resp_session;
  api::HttpOptions http_api;
  net::Limits http_limits;
  net::Limits resp_limits;
  const net::TlsServer* tls = nullptr;  // null: plain
  // Set before the first listener accepts; every call of the keeper's on its loop.
  service::LimitKeeper* limits = nullptr;
  Executor* limits_loop = nullptr;
  net::ListenerStats http_stats;
  net::ListenerStats resp_stats;
  std::atomic<uint64_t> last_connection_id{0};
};

// A worker's way to the one keeper of limits: over to the keeper's loop and back.
class WorkerLimits final : public api::LimitChanges {
 public:
  WorkerLimits(Shared& shared, Executor& loop) : shared_(shared), loop_(loop) {}
  void Put(std::string domain, std::string name, std::string body, std::optional<core::Version> if_match,
           Done done) override;
  void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
              Done done) override;

 private:
  // Has `done` called on our own loop, once the log has it.
  Done Back(Done done);

  Shared& shared_;
  Executor& loop_;
};

class Worker {
 public:
  explicit Worker(Shared& shared);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Before Start. Opens a socket of its own on the endpoint, which is reserved and has its port; peers wait in its
  // backlog until Accept.
  Result<void> ListenHttp(const Endpoint& endpoint);
  Result<void> ListenResp(const Endpoint& endpoint);

  // The loop runs; or why it cannot: the system has no descriptors or no thread for it.
  Result<void> Start();
  // The listeners have begun; or why one cannot.
  Result<void> Accept();
  void Drain();
  // Whether Drain has reached every connection.
  bool drained() const { return drained_.load(std::memory_order_acquire); }
  void CloseAll();
  // Ends the loop and its thread.
  void Stop();

  net::Loop& loop() { return loop_; }
  // The loop's thread, or while it does not run.
  engine::EngineSession& session() { return *session_; }
  const LatencyHistogram& http_latency() const { return http_.latency(); }
  const LatencyHistogram& resp_latency() const { return resp_.latency(); }

 private:
  Result<void> Listen(const Endpoint& endpoint, net::ListenerOptions options);
  // Writes the Date header anew, once a second; on the loop, or before it runs.
  void WriteDate();
  void KeepDate();

  Shared& shared_;
  // The loop's: what every answer says.
  std::string date_;
  http::SessionOptions http_session_;  // the shared ones with our own date
  net::Loop loop_;
  const std::unique_ptr<Dialer> dialer_;  // for an engine over the network
  const std::unique_ptr<engine::EngineSession> session_;
  service::DeciderImpl decider_;
  WorkerLimits limits_;
  api::HttpApi http_;
  api::RespApi resp_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::atomic<bool> drained_{false};
  std::thread thread_;
};

}  // namespace penstock::server
