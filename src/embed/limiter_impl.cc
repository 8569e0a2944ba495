#include "embed/limiter_impl.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "policy/policy.h"
#include "policy/reader.h"
#include "policy/yaml.h"

namespace penstock {
namespace {

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(ErrorKind::kUnavailable, path + ": " + std::strerror(errno));
  std::string text;
  char buffer[64 * 1024];
  while (file.read(buffer, sizeof buffer), file.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(file.gcount()));
    if (text.size() > policy::kMaxYamlBytes) {
      return Fail(ErrorKind::kTooLarge,
                  path + ": larger than " + std::to_string(policy::kMaxYamlBytes) + " bytes");
    }
  }
  if (file.bad()) return Fail(ErrorKind::kUnavailable, path + ": " + std::strerror(errno));
  return text;
}

}  // namespace

Limiter::Impl::Impl(const LimiterOptions& options, const Clock* clock)
    : options_(options), clock_(clock != nullptr ? *clock : system_clock_), store_(metrics_) {}

service::EngineSettings Limiter::Impl::Settings() const {
  return {.url = options_.engine_url,
          .prefix = options_.key_prefix,
          .max_keys = options_.max_keys,
          .fleet_size = options_.fleet_size};
}

Result<void> Limiter::Impl::CheckOptionsMakeSense() const {
  if (!options_.policy_file.empty() && !options_.policy_text.empty()) {
    return Invalid("policy_file and policy_text exclude each other");
  }
  if (options_.max_keys == 0) return Invalid("max_keys: must be 1 or more");
  if (!options_.snapshot_file.empty() && options_.snapshot_every.count() < 100) {
    return Invalid("snapshot_every: less than 100 ms");
  }
  if (options_.timeout.count() < 1 || options_.timeout.count() > 60'000) {
    return Invalid("timeout: 1 ms to 60 s");
  }
  if (options_.loops < 1 || options_.loops > 64) return Invalid("loops: 1 to 64");
  return {};
}

Result<void> Limiter::Impl::Start() {
  if (Result<void> fine = CheckOptionsMakeSense(); !fine) return fine;
  Result<std::unique_ptr<service::EngineSet>> engines = service::EngineSet::Open(Settings(), clock_);
  if (!engines) return Fail(engines.error().kind, "engine_url: " + engines.error().message);
  engines_ = *std::move(engines);
  if (engines_->remote()) {
    if (!options_.snapshot_file.empty()) return Invalid("snapshot_file: the store keeps its own state");
    if (Result<void> opened = OpenRemote(); !opened) return opened;
  } else {
    if (Result<void> loaded = LoadSnapshot(); !loaded) return loaded;
    reload_session_ = engines_->memory().OpenSession();
    limits_.emplace(service::KeeperParts{*reload_session_, store_, clock_}, Holdable());
    OpenPlaces();
  }
  if (!options_.policy_file.empty()) {
    if (Result<void> loaded = LoadFile(options_.policy_file); !loaded) return loaded;
  } else if (!options_.policy_text.empty()) {
    if (Result<void> loaded = Load(options_.policy_text, "policy"); !loaded) return loaded;
  }
  return StartKeeper();
}

Result<void> Limiter::Impl::OpenRemote() {
  service::DeciderOptions options;
  options.timeout = Millis(options_.timeout.count());
  remote_ =
      std::make_unique<embed::Remote>(engines_->engine(), clock_, store_, metrics_, options, options_.loops);
  remote_->OpenLimits(store_, clock_, Holdable());
  return remote_->Start();
}

embed::Remote* Limiter::Impl::PermitLoops() {
  if (remote_ != nullptr) return remote_.get();
  MutexLock lock(own_mutex_);
  if (own_loop_ != nullptr) return own_loop_.get();
  service::DeciderOptions options;
  options.on_full = options_.allow_when_full ? service::OnFull::kAllow : service::OnFull::kDeny;
  auto loop = std::make_unique<embed::Remote>(engine(), clock_, store_, metrics_, options, 1);
  if (!loop->Start()) return nullptr;
  own_loop_ = std::move(loop);
  return own_loop_.get();
}

// Without a wait the engine in this process is asked inline; the loop only keeps what was granted.
Acquired Limiter::Impl::Acquire(service::Request request) {
  Acquired acquired;
  embed::Remote* const loops = PermitLoops();
  if (loops == nullptr) {
    acquired.decision.error =
        Error{ErrorKind::kUnavailable, "no thread or file descriptors for the loop of permits"};
    return acquired;
  }
  const SteadyTime asked_at = clock_.Steady();
  const bool waits = request.options.max_wait.count() > 0;
  acquired.decision = waits ? loops->Decide(request) : Decide(request);
  if (!acquired.decision.permit) return acquired;
  const std::shared_ptr<embed::KeeperPost>& keeper = loops->keeper();
  auto state = std::make_shared<Permit::State>(*acquired.decision.permit, request.options.lease, asked_at,
                                               clock_, keeper);
  keeper->Keep(state);
  acquired.permit = Permit(std::move(state));
  return acquired;
}

Result<void> Limiter::Impl::StartKeeper() {
  if (options_.snapshot_file.empty()) return {};
  try {
    keeper_ = std::make_unique<embed::SnapshotKeeper>(engines_->memory(), options_.snapshot_file,
                                                      options_.snapshot_every);
  } catch (const std::system_error& error) {
    return Fail(ErrorKind::kUnavailable,
                std::string("no thread to write the snapshot at its interval: ") + error.what());
  }
  return {};
}

Result<void> Limiter::Impl::LoadSnapshot() {
  if (options_.snapshot_file.empty()) return {};
  Result<engine::SnapshotLock> lock = engine::SnapshotLock::Take(options_.snapshot_file);
  if (!lock) return tl::unexpected(std::move(lock.error()));
  snapshot_lock_ = std::move(*lock);
  Result<void> loaded = memory().LoadSnapshot(options_.snapshot_file);
  if (loaded || loaded.error().kind == ErrorKind::kNotFound) return {};
  // One that could not be read says nothing about what stands in it.
  if (!options_.discard_bad_snapshot || loaded.error().kind != ErrorKind::kInvalid) return loaded;
  engines_->ReplaceMemory(Settings(), clock_);  // the one that failed to load must not be used
  return {};
}

void Limiter::Impl::OpenPlaces() {
  const size_t wanted =
      options_.places != 0 ? options_.places : size_t{2} * std::thread::hardware_concurrency();
  service::DeciderOptions options;
  options.on_full = options_.allow_when_full ? service::OnFull::kAllow : service::OnFull::kDeny;
  for (size_t count = embed::Places::CountFor(wanted); count > 0; --count) {
    places_.Add(
        std::make_unique<embed::Place>(engines_->memory(), clock_, store_, metrics_.AddLoop(), options));
  }
}

policy::BuildOptions Limiter::Impl::Holdable() {
  policy::BuildOptions build;
  build.permits = engine().CanHoldPermits();
  build.can_hold = [this](const core::LimitParams& params) { return engine().CanHold(params); };
  return build;
}

Result<void> Limiter::Impl::Load(std::string_view text, std::string_view name) {
  policy::Diagnostics diagnostics;
  std::optional<policy::PolicyFile> file = policy::ReadPolicyText(text, name, diagnostics);
  auto definition = std::make_shared<policy::PolicyDefinition>();
  std::shared_ptr<policy::Policy> policy;
  if (file) {
    definition->revision = file->revision;
    definition->domains = std::move(file->domains);
    policy = policy::Policy::Build(*definition, Holdable(), diagnostics);
  }
  if (policy == nullptr || !diagnostics.ok()) return Invalid(diagnostics.Text());
  Result<void> published;
  MutexLock lock(reload_mutex_);
  if (remote_ != nullptr) {
    published = remote_->Load(std::move(definition), std::move(policy));
    // The first is in force without the store, whose absence each limit's on_failure answers; it is registered later.
    const bool first = !std::exchange(loaded_, true);
    if (!published && first && published.error().kind == ErrorKind::kUnavailable) return {};
    return published;
  }
  limits_->Load(std::move(definition), std::move(policy),
                [&published](Result<void> done) { published = std::move(done); });
  // Each place takes it over now, also one that is seldom entered: the old policy can go.
  for (size_t i = 0; i < places_.size(); ++i) const embed::Visit visit(places_[i]);
  MutexLock own(own_mutex_);
  if (own_loop_ != nullptr) own_loop_->ReachAll();
  return published;
}

Result<void> Limiter::Impl::LoadFile(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  if (!text) return tl::unexpected<Error>(text.error());
  return Load(*text, path);
}

Expected<Limiter> LimiterOpener::Open(const LimiterOptions& options, const Clock* clock) {
  auto impl = std::make_unique<Limiter::Impl>(options, clock);
  if (Result<void> started = impl->Start(); !started) return std::move(started).error();
  return Limiter(std::move(impl));
}

}  // namespace penstock
