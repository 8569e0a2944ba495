#include "embed/remote.h"

#include <future>
#include <system_error>
#include <utility>

namespace penstock::embed {
namespace {

thread_local bool t_on_loop = false;

Decision Wrong(ErrorKind kind, std::string message) {
  Decision decision;
  decision.error = Error{kind, std::move(message)};
  return decision;
}

service::DeciderOptions WithTimer(service::DeciderOptions options, Timer& timer) {
  options.timer = &timer;
  return options;
}

// Takes over all that a request points to.
void Own(Job& job, const service::Request& request) {
  job.request = request;
  service::Request& own = job.request;
  job.attributes.assign(request.attributes.begin(), request.attributes.end());
  job.costs.assign(request.options.costs.begin(), request.options.costs.end());
  std::string_view* views[] = {&own.domain, &own.ad_hoc_key, &own.only_limit, &own.options.request_id,
                               &own.options.holder};
  size_t bytes = 0;
  const auto each = [&](auto&& visit) {
    for (std::string_view* view : views) visit(*view);
    for (Attribute& attribute : job.attributes) visit(attribute.name), visit(attribute.value);
    for (UnitCost& cost : job.costs) visit(cost.unit);
  };
  each([&](std::string_view view) { bytes += view.size(); });
  job.bytes.clear();
  job.bytes.reserve(bytes);
  each([&](std::string_view& view) {
    const size_t at = job.bytes.size();
    job.bytes.append(view);
    view = {job.bytes.data() + at, view.size()};
  });
  own.attributes = job.attributes;
  own.options.costs = job.costs;
}

}  // namespace

RemoteLoop::RemoteLoop(engine::Engine& engine, const Clock& clock, service::PolicyStore& store,
                       service::LoopCounters& counters, const service::DeciderOptions& options)
    : clock_(clock),
      loop_(clock),
      dialer_(net::NewDialer(loop_)),
      session_(engine.OpenLoop({loop_, loop_, dialer_.get()})),
      decider_(engine, *session_, loop_, clock_, store, counters, WithTimer(options, loop_)),
      keeper_(decider_.permits(), loop_, clock_),
      post_(std::make_shared<KeeperPost>(loop_, keeper_)) {}

RemoteLoop::~RemoteLoop() { Stop(); }

bool RemoteLoop::OnLoop() { return t_on_loop; }

Result<void> RemoteLoop::Start() {
  if (!loop_.ready()) return Fail(ErrorKind::kUnavailable, "no file descriptors for the event loop");
  try {
    thread_ = std::thread([this] {
      t_on_loop = true;
      loop_.Run();
    });
  } catch (const std::system_error& error) {
    return Fail(ErrorKind::kUnavailable, std::string("no thread for the event loop: ") + error.what());
  }
  return {};
}

void RemoteLoop::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  post_->Close();
  loop_.Post([this] {
    Work();  // what was given before
    keeper_.Close([this] {
      loop_.Post([this] {
        session_->Close();
        decider_.Close();
        loop_.Stop();
      });
    });
  });
  thread_.join();
}

void RemoteLoop::Give(std::span<Job> jobs) {
  std::vector<Job*> given;
  given.reserve(jobs.size());
  for (Job& job : jobs) given.push_back(&job);
  Push(given);
}

void RemoteLoop::Push(std::span<Job* const> jobs) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = inbox_.empty();
    inbox_.insert(inbox_.end(), jobs.begin(), jobs.end());
  }
  if (first) loop_.Post([this] { Work(); });
}

bool RemoteLoop::GiveAsync(const service::Request& request, const Limiter::Callback& callback) {
  Job* job = nullptr;
  {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    if (free_.empty()) {
      if (jobs_.size() == kMaxOpen) return false;
      free_.push_back(jobs_.emplace_back(std::make_unique<Job>()).get());
    }
    job = free_.back();
    free_.pop_back();
  }
  Own(*job, request);
  job->callback = callback;
  Push({&job, 1});
  return true;
}

void RemoteLoop::Work() {
  {
    MutexLock lock(mutex_);
    working_.swap(inbox_);
  }
  for (Job* job : working_) {
    job->request.stable = true;
    job->request.into = &job->decision;
    decider_.Submit(job->request, *this, reinterpret_cast<uintptr_t>(job));
  }
  working_.clear();
  decider_.Flush();
}

void RemoteLoop::Decided(uint64_t token, const Result<const Decision*>& decision) noexcept {
  Job& job = *reinterpret_cast<Job*>(static_cast<uintptr_t>(token));
  if (!decision) {
    job.decision = Decision();
    job.decision.error = decision.error();
  }
  Answer(job);
}

void RemoteLoop::Answer(Job& job) {
  if (std::atomic<uint32_t>* const open = job.open; open != nullptr) {
    // The job is the waiting caller's from here on, and the count with it once it is 0.
    if (open->fetch_sub(1, std::memory_order_acq_rel) == 1) open->notify_one();
    return;
  }
  job.callback(job.decision);
  job.callback = nullptr;
  MutexLock lock(mutex_);
  free_.push_back(&job);
}

Remote::Remote(engine::Engine& engine, const Clock& clock, service::PolicyStore& store,
               service::Metrics& metrics, const service::DeciderOptions& options, unsigned loops) {
  for (unsigned i = 0; i < loops; ++i) {
    loops_.push_back(std::make_unique<RemoteLoop>(engine, clock, store, metrics.AddLoop(), options));
  }
}

Remote::~Remote() {
  for (const auto& loop : loops_) loop->Stop();
}

Result<void> Remote::Start() {
  for (const auto& loop : loops_) {
    if (Result<void> started = loop->Start(); !started) return started;
  }
  return {};
}

// A thread stays with its loop, so that its requests keep their order.
RemoteLoop& Remote::LoopOfThread() {
  static std::atomic<size_t> threads{0};
  static thread_local const size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return *loops_[number % loops_.size()];
}

void Remote::WaitFor(std::span<Job> jobs) {
  // Of the thread, not of the call: who counts it down to 0 still wakes us after we may have seen that.
  static thread_local std::atomic<uint32_t> open;
  open.store(static_cast<uint32_t>(jobs.size()), std::memory_order_relaxed);
  for (Job& job : jobs) job.open = &open;
  LoopOfThread().Give(jobs);
  for (uint32_t left = open.load(std::memory_order_acquire); left != 0;
       left = open.load(std::memory_order_acquire)) {
    open.wait(left, std::memory_order_acquire);
  }
}

Decision Remote::Decide(const service::Request& request) {
  if (RemoteLoop::OnLoop()) {
    return Wrong(ErrorKind::kInvalid, "a callback must not wait for the limiter: use CheckAsync there");
  }
  Job job;
  job.request = request;
  WaitFor({&job, 1});
  return std::move(job.decision);
}

void Remote::DecideMany(std::span<const Request> requests, std::span<Decision> decisions) {
  const size_t count = std::min(requests.size(), decisions.size());
  if (count == 0) return;
  if (RemoteLoop::OnLoop()) {
    for (size_t i = 0; i < count; ++i) {
      decisions[i] =
          Wrong(ErrorKind::kInvalid, "a callback must not wait for the limiter: use CheckAsync there");
    }
    return;
  }
  std::vector<Job> jobs(count);
  for (size_t i = 0; i < count; ++i) {
    jobs[i].request.domain = requests[i].domain;
    jobs[i].request.attributes = requests[i].attributes;
    jobs[i].request.options = requests[i].options;
  }
  WaitFor(jobs);
  for (size_t i = 0; i < count; ++i) decisions[i] = std::move(jobs[i].decision);
}

void Remote::DecideAsync(const service::Request& request, const Limiter::Callback& callback) {
  if (LoopOfThread().GiveAsync(request, callback)) return;
  Decision overload;
  overload.reason = Reason::kOverload;
  callback(overload);
}

void Remote::OpenLimits(service::PolicyStore& store, const Clock& clock, policy::BuildOptions build) {
  RemoteLoop& home = *loops_.front();
  limits_ = std::make_unique<service::LimitKeeper>(
      service::KeeperParts{home.session(), store, clock, &home.loop(), &background_}, std::move(build));
  store.OnStale([this, &home] { home.loop().Post([this] { limits_->Poll(); }); });
  home.loop().Post([this, &home] { limits_->Follow(home.loop()); });
}

Result<void> Remote::Load(std::shared_ptr<const policy::PolicyDefinition> file,
                          std::shared_ptr<policy::Policy> policy) {
  if (RemoteLoop::OnLoop()) return Invalid("a callback must not wait for a reload");
  std::promise<Result<void>> done;
  loops_.front()->loop().Post([&] {
    limits_->Load(std::move(file), std::move(policy),
                  [&done](Result<void> result) { done.set_value(std::move(result)); });
  });
  Result<void> published = done.get_future().get();
  ReachAll();  // the new policy was posted to each loop before this is
  return published;
}

void Remote::ReachAll() {
  for (const auto& loop : loops_) {
    std::promise<void> reached;
    loop->loop().Post([&reached] { reached.set_value(); });
    reached.get_future().get();
  }
}

}  // namespace penstock::embed
