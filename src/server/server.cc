#include "server/server.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>
#include <utility>

#include "api/metrics_text.h"
#include "api/redis_metrics.h"
#include "base/log.h"
#include "engine/memory/memory_engine.h"
#include "engine/redis/redis_engine.h"
#include "server/settings.h"
#include "service/failover/failover_engine.h"

namespace penstock::server {
namespace {

constexpr std::string_view kVersion = PENSTOCK_VERSION;

void LogLines(LogLevel level, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) Log(level, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

policy::BuildOptions WhatMemoryHolds() {
  static const SystemClock clock;
  static const engine::MemoryEngine probe({.max_keys = 1, .shards = 1}, clock);
  policy::BuildOptions options;
  options.permits = probe.CanHoldPermits();
  options.can_hold = [](const core::LimitParams& params) { return probe.CanHold(params); };
  return options;
}

Server::Server(const Options& options, const Clock& clock)
    : options_(options), clock_(clock), source_(options.policy, WhatMemoryHolds()) {}

Server::~Server() {
  for (const auto& worker : workers_) worker->Stop();
}

Result<std::unique_ptr<Server>> Server::Start(const Options& options, const Clock& clock) {
  std::unique_ptr<Server> server(new Server(options, clock));
  if (Result<void> begun = server->Begin(); !begun) return tl::unexpected(std::move(begun.error()));
  return server;
}

Result<void> Server::Begin() {
  net::PrepareProcess();
  // Everything that can be wrong with files comes before the first socket.
  if (Result<void> done = ReadSettings(); !done) return done;
  if (Result<void> done = LoadCertificates(); !done) return done;
  if (Result<void> done = OpenEngine(); !done) return done;
  if (Result<void> done = ReserveEndpoints(); !done) return done;
  const api::ServerView& view = *this;
  shared_ = std::make_unique<Shared>(clock_, engines_->engine(), metrics_, policies_, view);
  shared_->http_api = {token_, listen_options_.trusted_proxies};
  shared_->http_limits = options_.http_limits;
  shared_->resp_limits = options_.resp_limits;
  shared_->tls = tls_.get();
  // The memory engine answers inline: no deadline, so no clock is read for it.
  if (engines_->set().remote()) shared_->decider.timeout = engine_options_.timeout;
  shared_->decider.on_full =
      engine_options_.allow_when_full ? service::OnFull::kAllow : service::OnFull::kDeny;
  shared_->resp_session.token = token_;
  shared_->resp_session.version = kVersion;
  permits_ = std::make_unique<service::PermitWatch>();
  shared_->decider.watch = permits_.get();
  if (Result<void> done = OpenWorkers(); !done) return done;
  OpenLimits();
  if (Result<void> done = PublishPolicy(); !done) {
    if (done.error().kind == ErrorKind::kConflict)
      return Invalid(done.error().message);  // the file's revision
    if (done.error().kind != ErrorKind::kUnavailable) return done;
    Log(LogLevel::kWarning, "the policy is not registered yet: " + done.error().message);
  }
  net::Loop& home = workers_.front()->loop();
  home.Post([this, &home] {
    limits_->Follow(home);
    permits_->Follow(workers_.front()->session(), home, clock_);
  });
  if (!options_.policy.empty()) WatchPolicy();
  for (const auto& worker : workers_) {
    if (Result<void> accepting = worker->Accept(); !accepting) return accepting;
  }
  if (engines_->has_snapshot()) next_snapshot_ = clock_.Steady() + engine_options_.snapshot->every;
  return {};
}

void Server::WatchPolicy() {
  Result<std::unique_ptr<config::Watcher>> watcher = config::Watcher::Open(options_.policy);
  if (watcher) {
    watcher_ = std::move(*watcher);
  } else {
    Log(LogLevel::kWarning, "changes of the policy are seen on SIGHUP only: " + watcher.error().message);
  }
}

Result<void> Server::ReadSettings() {
  policy::Diagnostics diagnostics;
  if (!source_.Load(diagnostics)) return Invalid(diagnostics.Text());
  for (const policy::Diagnostic& warning : diagnostics.warnings()) Log(LogLevel::kWarning, warning.Text());
  engine_options_ = source_.current()->engine;
  listen_options_ = source_.current()->listen;
  if (Result<void> done = config::ApplyFlags(options_.flags, engine_options_, listen_options_); !done)
    return done;
  if (Result<void> done = config::CheckEngineUrl(engine_options_.url); !done) return done;
  Result<std::optional<std::string>> token =
      config::ReadToken(listen_options_, [](const char* name) -> const char* { return std::getenv(name); });
  if (!token) return Fail(token.error().kind, "the token cannot be read: " + token.error().message);
  token_ = token->value_or("");
  return {};
}

Result<void> Server::LoadCertificates() {
  if (!listen_options_.tls) return {};
  const config::TlsOptions& files = *listen_options_.tls;
  Result<std::unique_ptr<net::TlsServer>> loaded =
      net::TlsServer::Load({files.cert, files.key, files.client_ca});
  if (!loaded) return tl::unexpected(std::move(loaded.error()));
  tls_ = std::move(*loaded);
  return {};
}

Result<void> Server::ReserveEndpoints() {
  if (!listen_options_.http && !listen_options_.resp) {
    return Invalid("nothing to listen on: http and resp are both off");
  }
  Result<std::optional<Endpoint>> http = Reserve(listen_options_.http, token_.empty(), options_.insecure);
  if (!http) return tl::unexpected(std::move(http.error()));
  Result<std::optional<Endpoint>> resp = Reserve(listen_options_.resp, token_.empty(), options_.insecure);
  if (!resp) return tl::unexpected(std::move(resp.error()));
  http_ = *http;
  resp_ = *resp;
  return {};
}

Result<void> Server::OpenEngine() {
  Result<std::unique_ptr<Engines>> opened = Engines::Open(engine_options_, options_.discard_snapshot, clock_);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  engines_ = std::move(*opened);
  return {};
}

Result<void> Server::OpenWorkers() {
  const unsigned count = WorkerCount(listen_options_.threads);
  for (unsigned i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<Worker>(*shared_));
    Worker& worker = *workers_.back();
    if (http_) {
      if (Result<void> listening = worker.ListenHttp(*http_); !listening) return listening;
    }
    if (resp_) {
      if (Result<void> listening = worker.ListenResp(*resp_); !listening) return listening;
    }
  }
  for (const auto& worker : workers_) {
    if (Result<void> started = worker->Start(); !started) return started;
  }
  return {};
}

void Server::OpenLimits() {
  Worker& home = *workers_.front();
  background_ = std::make_unique<service::Background>();
  limits_ = std::make_unique<service::LimitKeeper>(
      service::KeeperParts{home.session(), policies_, clock_, &home.loop(), background_.get()},
      WhatMemoryHolds());
  shared_->limits = limits_.get();
  shared_->limits_loop = &home.loop();
  policies_.OnStale([this, &home] { home.loop().Post([this] { limits_->Poll(); }); });
}

// On a loop, as every use of an engine's session; this thread waits for it. Without a file only what was set at run time
// is in force.
Result<void> Server::PublishPolicy() {
  auto result = std::make_shared<std::promise<Result<void>>>();
  std::future<Result<void>> published = result->get_future();
  const auto done = [result](Result<void> outcome) { result->set_value(std::move(outcome)); };
  std::shared_ptr<const policy::PolicyDefinition> definition;
  if (!options_.policy.empty()) {
    definition = std::make_shared<const policy::PolicyDefinition>(source_.current()->definition);
  }
  workers_.front()->loop().Post([this, definition, policy = source_.current()->policy, done] {
    if (definition == nullptr) return limits_->Poll(done);
    limits_->Load(definition, policy, done);
  });
  return published.get();
}

std::string Server::ReadyLine() const {
  const auto text = [](const std::optional<Endpoint>& endpoint) {
    return endpoint ? endpoint->Text() : "off";
  };
  std::string line = "ready http=" + text(http_) + " resp=" + text(resp_) + " grpc=off engine=";
  line += engines_->engine().name();
  line += " policy=";
  line += options_.policy.empty() ? "none" : BaseName(options_.policy);
  return line;
}

void Server::Reload() {
  if (watcher_) watcher_->Rearm();
  ReloadPolicy();
  ReloadCertificates();
}

void Server::ReloadPolicy() {
  if (options_.policy.empty()) return;
  config::ReloadResult reloaded = source_.Reload();
  using State = config::ReloadResult::State;
  bool fine = reloaded.state != State::kFailed;
  std::string text = reloaded.Text();
  if (reloaded.state == State::kLoaded) {
    const Result<void> published = PublishPolicy();
    if (!published && published.error().kind == ErrorKind::kUnavailable) {
      text += "\nthe policy is in force once the engine has it: " + published.error().message;
    } else if (!published) {
      fine = false;
      source_.Reject();
      text = "policy not reloaded, the last good one stays: " + published.error().message;
    }
  }
  (fine ? reloads_ok_ : reloads_failed_).fetch_add(1, std::memory_order_relaxed);
  LogLines(fine ? LogLevel::kInfo : LogLevel::kError, text);
}

void Server::ReloadCertificates() {
  if (!tls_) return;
  const Result<void> reloaded = tls_->Reload();
  if (reloaded) {
    Log(LogLevel::kInfo, "certificates reloaded");
  } else {
    Log(LogLevel::kError, "certificates not reloaded, the last good ones stay: " + reloaded.error().message);
  }
}

void Server::Tick() {
  if (watcher_) {
    const SteadyTime now = real_clock_.Steady();
    watcher_->OnReadable(now);
    if (watcher_->TakeDue(now)) ReloadPolicy();
  }
  if (tls_ && tls_->FilesChanged()) ReloadCertificates();
  if (const std::string news = engines_->set().TakeNews(); !news.empty()) Log(LogLevel::kWarning, news);
  if (engines_->has_snapshot() && clock_.Steady() >= next_snapshot_) {
    SaveSnapshot();
    next_snapshot_ = clock_.Steady() + engine_options_.snapshot->every;
  }
}

bool Server::SaveSnapshot() {
  if (!engines_->has_snapshot()) return true;
  const Result<void> saved = engines_->SaveSnapshot();
  if (saved) {
    const auto now_s = static_cast<uint64_t>(real_clock_.Now().us / Seconds(1).count);
    last_snapshot_s_.store(now_s, std::memory_order_relaxed);
  } else {
    snapshot_failures_.fetch_add(1, std::memory_order_relaxed);
    Log(LogLevel::kError, "snapshot not written: " + saved.error().message);
  }
  return saved.has_value();
}

bool Server::Stop(const std::function<bool()>& impatient) {
  if (std::exchange(stopped_, true)) return true;
  stopping_.store(true, std::memory_order_relaxed);
  for (const auto& worker : workers_) worker->Drain();
  const auto done = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->drained(); }) &&
           shared_->http_stats.open == 0 && shared_->resp_stats.open == 0;
  };
  while (!done() && !impatient()) {
  }
  for (const auto& worker : workers_) worker->CloseAll();
  for (const auto& worker : workers_) worker->Stop();
  return SaveSnapshot();
}

void Server::ClockMoved() {
  for (const auto& worker : workers_) worker->loop().ClockMoved();
}

bool Server::Ready(std::string& reason) const {
  if (stopping_.load(std::memory_order_relaxed)) {
    reason = "shutting down";
    return false;
  }
  if (!engines_->engine().ready()) {
    reason = "the engine does not answer, and this node has no share to decide by";
    return false;
  }
  return true;
}

void Server::AppendMetrics(std::string& out) const {
  std::array<api::ProtocolMetrics, 2> protocols{};
  const auto describe = [](std::string_view protocol, const net::ListenerStats& stats) {
    api::ProtocolMetrics metrics;
    metrics.protocol = protocol;
    metrics.connections = stats.open;
    metrics.accepted = stats.accepted;
    metrics.timed_out = stats.timed_out;
    metrics.failed_handshakes = stats.failed_handshakes;
    metrics.accept_pauses = stats.accept_pauses;
    return metrics;
  };
  protocols[0] = describe("http", shared_->http_stats);
  protocols[1] = describe("resp", shared_->resp_stats);
  for (const auto& worker : workers_) {
    worker->http_latency().AddTo(protocols[0].latency);
    worker->resp_latency().AddTo(protocols[1].latency);
  }
  service::FailoverStats failover;
  const service::FailoverEngine* const stand_in = engines_->set().failover();
  if (stand_in != nullptr) failover = stand_in->failover_stats();
  const std::vector<service::PermitGauge> permits = permits_->Gauges();
  api::AppendMetrics(out, {.decisions = metrics_,
                           .permits = permits,
                           .engine_name = engines_->engine().name(),
                           .engine = engines_->engine().stats(),
                           .protocols = protocols,
                           .policy_version = policies_.Newest()->generation,
                           .reloads_ok = reloads_ok_,
                           .reloads_failed = reloads_failed_,
                           .snapshot_failures = snapshot_failures_,
                           .last_snapshot_s = last_snapshot_s_,
                           .failover = stand_in != nullptr ? &failover : nullptr});
  if (const engine::redis::RedisEngine* const redis = engines_->set().redis(); redis != nullptr) {
    api::AppendRedisMetrics(out, redis->book(), redis->topology_counters(), redis->counters(),
                            redis->hints().stats());
  }
}

}  // namespace penstock::server
