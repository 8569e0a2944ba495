// The server: policy, engine and workers put together, from start to an ordered stop.
//
//   Start:  policy read -> engine, its snapshot -> loops -> policy registered -> listening
//   stop:   stop accepting -> answer what is in flight, to a deadline -> loops end -> snapshot
//
// Thread contract: one thread, the process's main thread, which also does what may block (files); the loops are its
// workers'. What implements api::ServerView is called on the loops.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/server_view.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "config/source.h"
#include "config/watcher.h"
#include "net/endpoint.h"
#include "server/engines.h"
#include "server/options.h"
#include "server/worker.h"
#include "service/background.h"

namespace penstock::server {

// What the memory engine can hold, for who compiles a policy without running a server.
policy::BuildOptions WhatMemoryHolds();

class Server final : private api::ServerView {
 public:
  // The clock outlives the server.
  static Result<std::unique_ptr<Server>> Start(const Options& options, const Clock& clock);
  ~Server() override;

  // ready http=127.0.0.1:8080 resp=127.0.0.1:6380 grpc=off engine=memory policy=limits.yaml
  std::string ReadyLine() const;

  // Reads policy and certificates again. What cannot be read leaves the last good one in place and is logged.
  void Reload();
  // What is due by now: a changed file, the snapshot. Call it a few times a second.
  void Tick();
  // Stops in order. `impatient` is asked now and then, may wait a little itself, and ends the wait by true.
  // False when the last snapshot could not be written.
  bool Stop(const std::function<bool()>& impatient);

  // The clock was moved by hand.
  void ClockMoved();

 private:
  Server(const Options& options, const Clock& clock);

  Result<void> Begin();
  // Policy file, flags and environment, in this order.
  Result<void> ReadSettings();
  Result<void> ReserveEndpoints();
  Result<void> LoadCertificates();
  Result<void> OpenEngine();
  Result<void> OpenWorkers();
  void OpenLimits();
  // What source_ has read last.
  Result<void> PublishPolicy();
  void WatchPolicy();
  void ReloadPolicy();
  void ReloadCertificates();
  bool SaveSnapshot();

  bool Ready(std::string& reason) const override;
  void AppendMetrics(std::string& out) const override;
  service::PolicyPointer policy() const override { return policies_.Newest(); }

  // Constant after Start.
  const Options options_;
  const Clock& clock_;
  config::EngineOptions engine_options_;
  config::ListenOptions listen_options_;
  std::string token_;
  std::optional<Endpoint> http_;  // with its real port; none = off
  std::optional<Endpoint> resp_;

  // The main thread.
  config::PolicySource source_;
  const SystemClock real_clock_;              // by which files are watched, whatever clock decides
  std::unique_ptr<config::Watcher> watcher_;  // null without a policy, or where files cannot be watched
  SteadyTime next_snapshot_;
  bool stopped_ = false;

  // Any thread.
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> reloads_ok_{0};
  std::atomic<uint64_t> reloads_failed_{0};
  std::atomic<uint64_t> snapshot_failures_{0};
  std::atomic<uint64_t> last_snapshot_s_{0};  // unix time; 0: none yet
  service::Metrics metrics_;
  service::PolicyStore policies_{metrics_};
  std::unique_ptr<net::TlsServer> tls_;  // null: plain
  std::unique_ptr<Engines> engines_;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<service::LimitKeeper> limits_;   // on the first worker's loop
  std::unique_ptr<service::PermitWatch> permits_;  // likewise
  std::unique_ptr<service::Background>
      background_;  // compiles policies for it; joined before anything else goes
};

}  // namespace penstock::server
