// The memory engine against the least that any such table must do.
//
//   embedded_bench [--keys N] [--fill N] [--rounds N]
//
// (a) One thread, N random keys as strings, the time given: decisions one by one and in batches of 64, beside a bare
//     loop over the same strings that hashes with the same hash and reads and writes one slot of the same size in a
//     table of the same bytes. Medians of the rounds, which alternate, so that a slow moment of the machine meets all; the
//     thread's CPU time, so that other processes count less.
// (d) Resident bytes a key with --fill keys, filled through the library.
// (e) Policies of 10 and of 100,000 limits, each with an exact match of its own, through the library: asked for ten of
//     them, and for all of them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "core/params.h"
#include "embed/limiter_impl.h"
#include "engine/memory/memory_engine.h"
#include "penstock/limiter.h"

namespace penstock {
namespace {

constexpr size_t kBatch = 64;
constexpr EngineTime kStart{1'800'000'000'000'000};

// What one limit and one key cost in an engine: the state of core, a binding, one session.
// The time that is given: a plain number, so that moving it costs the runs nothing.
class GivenClock final : public Clock {
 public:
  EngineTime Now() const override { return now_; }
  SteadyTime Steady() const override { return {now_.us}; }
  void Advance(Micros by) { now_ = now_ + by; }

 private:
  EngineTime now_ = kStart;
};

class Counted final : public engine::Sink {
 public:
  void Decided(engine::Batch& batch, engine::Group& group) noexcept override {
    allowed_ += batch.operations(group)[0].verdict.outcome == Outcome::kAllowed;
  }
  uint64_t allowed() const { return allowed_; }

 private:
  uint64_t allowed_ = 0;
};

size_t ResidentBytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0;
  unsigned long resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) std::abort();
  std::fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

std::unique_ptr<core::Limit> MakeLimit() {
  auto limit = std::make_unique<core::Limit>();
  limit->domain = "bench";
  limit->name = "per-user";
  limit->identity = "bench/per-user";
  limit->key_names = {"user"};
  core::RateSpec spec;
  spec.count = 30;
  spec.period = Seconds(60);
  spec.burst = 15;
  limit->params = core::CompileRate(spec).value();
  return limit;
}

std::vector<std::string> RandomKeys(size_t count) {
  Random random(7);
  std::vector<std::string> keys;
  keys.reserve(count);
  char text[32];
  for (size_t i = 0; i < count; ++i) {
    std::snprintf(text, sizeof text, "user:%012llx", static_cast<unsigned long long>(random.Next() >> 16));
    keys.emplace_back(text);
  }
  return keys;
}

// The engine through its session.
class EngineRun {
 public:
  explicit EngineRun(uint64_t max_keys)
      : engine_({.max_keys = max_keys}, clock_), session_(engine_.OpenSession()), limit_(MakeLimit()) {
    core::Limit* limits[] = {limit_.get()};
    session_->Register(limits, [](const Result<void>& result) {
      if (!result) std::abort();
    });
  }

  template <class Key>
  void Decide(std::span<const Key> keys, size_t batch_size) {
    for (size_t i = 0; i < keys.size(); i += batch_size) {
      batch_.Clear();
      const size_t end = std::min(i + batch_size, keys.size());
      for (size_t j = i; j < end; ++j) {
        const std::string_view key[] = {keys[j]};
        batch_.AddGroup();
        batch_.AddOperation(*limit_, key).cost = 1;
      }
      clock_.Advance({1});
      session_->Decide(batch_, {}, sink_);
    }
  }
  uint64_t allowed() const { return sink_.allowed(); }
  uint64_t keys() const { return engine_.stats().keys; }

 private:
  GivenClock clock_;
  engine::MemoryEngine engine_;
  std::unique_ptr<engine::EngineSession> session_;
  std::unique_ptr<core::Limit> limit_;
  engine::Batch batch_;
  Counted sink_;
};

// The library as a program calls it; with a clock of our own, or with its own when `given` is false.
class LibraryRun {
 public:
  LibraryRun(uint64_t max_keys, bool given)
      : limiter_(Open(max_keys, given ? &clock_ : nullptr)), requests_(kBatch), decisions_(kBatch) {}

  void Decide(std::span<const std::string> keys) {
    for (const std::string& key : keys) {
      const std::array<Attribute, 1> user = {{{"user", key}}};
      clock_.Advance({1});
      allowed_ += limiter_.Check("bench", user).allowed;
    }
  }
  void DecideMany(std::span<const std::string> keys) {
    for (size_t i = 0; i < keys.size(); i += kBatch) {
      const size_t count = std::min(kBatch, keys.size() - i);
      for (size_t j = 0; j < count; ++j) {
        users_[j] = {{{"user", keys[i + j]}}};
        requests_[j].domain = "bench";
        requests_[j].attributes = users_[j];
      }
      clock_.Advance({1});
      limiter_.CheckMany(std::span(requests_).first(count), decisions_);
      for (size_t j = 0; j < count; ++j) allowed_ += decisions_[j].allowed;
    }
  }
  void DecideAdHoc(std::span<const std::string> keys) {
    const AdHocLimit limit{.count = 30, .period = std::chrono::seconds(60), .burst = 15};
    for (const std::string& key : keys) {
      clock_.Advance({1});
      allowed_ += limiter_.Check(key, limit).allowed;
    }
  }
  uint64_t allowed() const { return allowed_; }
  uint64_t keys() const { return limiter_.Stats().keys; }

 private:
  static Limiter Open(uint64_t max_keys, const Clock* clock) {
    LimiterOptions options;
    options.max_keys = max_keys;
    options.policy_text =
        "domains: {bench: {limits: [{name: per-user, key: [user], rate: 30/60s, burst: 15}]}}";
    Expected<Limiter> limiter = LimiterOpener::Open(options, clock);
    if (!limiter) std::abort();
    return *std::move(limiter);
  }

  GivenClock clock_;
  Limiter limiter_;
  std::array<std::array<Attribute, 1>, kBatch> users_;
  std::vector<Request> requests_;
  std::vector<Decision> decisions_;
  uint64_t allowed_ = 0;
};

// The bare loop.
class BareRun {
 public:
  explicit BareRun(size_t bytes) : slots_(bytes / sizeof(Slot)) {
    table_ = static_cast<Slot*>(
        mmap(nullptr, slots_ * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (table_ == MAP_FAILED) std::abort();
    std::memset(static_cast<void*>(table_), 1, slots_ * sizeof(Slot));
  }
  ~BareRun() { munmap(table_, slots_ * sizeof(Slot)); }

  void Touch(std::span<const std::string> keys) {
    __extension__ using Wide = unsigned __int128;
    for (const std::string& key : keys) {
      const Hash128 name = hash_.Hash(key);
      Slot& slot = table_[static_cast<size_t>((static_cast<Wide>(name.high) * slots_) >> 64)];
      found_ += slot.high == name.high && slot.low == name.low;
      slot = {name.high, name.low, slot.value + 1, slot.stamp + 1};
    }
  }
  uint64_t found() const { return found_; }

 private:
  struct Slot {
    uint64_t high, low, value, stamp;
  };
  HashKey hash_ = HashKey::Random();
  size_t slots_;
  Slot* table_ = nullptr;
  uint64_t found_ = 0;
};

template <class Work>
double NanosPer(size_t count, Work&& work) {
  const auto read_ns = [] {
    timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return static_cast<double>(ts.tv_sec) * 1e9 + static_cast<double>(ts.tv_nsec);
  };
  const double start = read_ns();
  work();
  return (read_ns() - start) / static_cast<double>(count);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Speed(size_t count, size_t rounds) {
  const std::vector<std::string> keys = RandomKeys(count);
  const size_t before = ResidentBytes();
  EngineRun engine(count * 2);
  engine.Decide<std::string>(keys, kBatch);
  const size_t bytes = ResidentBytes() - before;
  BareRun bare(bytes);
  LibraryRun library(count * 2, true);
  LibraryRun ad_hoc(count * 2, true);
  LibraryRun public_call(count * 2, false);
  library.DecideMany(keys);
  ad_hoc.DecideAdHoc(keys);
  public_call.DecideMany(keys);
  std::vector<double> library_single;
  std::vector<double> library_many;
  std::vector<double> library_ad_hoc;
  std::vector<double> library_public;
  std::vector<double> single;
  std::vector<double> batched;
  std::vector<double> loop;
  for (size_t i = 0; i < rounds; ++i) {
    loop.push_back(NanosPer(count, [&] { bare.Touch(keys); }));
    batched.push_back(NanosPer(count, [&] { engine.Decide<std::string>(keys, kBatch); }));
    single.push_back(NanosPer(count, [&] { engine.Decide<std::string>(keys, 1); }));
    library_single.push_back(NanosPer(count, [&] { library.Decide(keys); }));
    library_many.push_back(NanosPer(count, [&] { library.DecideMany(keys); }));
    library_ad_hoc.push_back(NanosPer(count, [&] { ad_hoc.DecideAdHoc(keys); }));
    library_public.push_back(NanosPer(count, [&] { public_call.Decide(keys); }));
  }
  const double bare_ns = Median(loop);
  const auto line = [&](const char* what, double ns) {
    std::printf("%-34s %8.1f ns %8.2f M/s %8.2f of the bare loop\n", what, ns, 1'000 / ns, bare_ns / ns);
  };
  std::printf("embedded, 1 thread, %zu keys, %zu bytes (%.1f a key), median of %zu\n", count, bytes,
              static_cast<double>(bytes) / static_cast<double>(count), rounds);
  line("bare loop", bare_ns);
  line("engine, one by one", Median(single));
  line("engine, batches of 64", Median(batched));
  line("library, one by one", Median(library_single));
  line("library, batches of 64", Median(library_many));
  line("library, ad hoc, one by one", Median(library_ad_hoc));
  line("library, own clock, one by one", Median(library_public));
  std::printf("(allowed %llu, bare hits %llu)\n",
              static_cast<unsigned long long>(engine.allowed() + library.allowed() + ad_hoc.allowed() +
                                              public_call.allowed()),
              static_cast<unsigned long long>(bare.found()));
}

void Memory(size_t count) {
  std::vector<std::string> keys(kBatch);
  const size_t before = ResidentBytes();
  LibraryRun library(count, true);
  for (size_t i = 0; i < count; i += kBatch) {
    const size_t end = std::min(kBatch, count - i);
    for (size_t j = 0; j < end; ++j) keys[j] = "user:" + std::to_string(i + j);
    library.DecideMany(std::span(keys).first(end));
  }
  const size_t bytes = ResidentBytes() - before;
  std::printf("resident, %llu keys filled through the library: %.1f bytes a key\n",
              static_cast<unsigned long long>(library.keys()),
              static_cast<double>(bytes) / static_cast<double>(count));
}

std::string PolicyOf(size_t limits) {
  std::string text = "domains:\n  bench:\n    limits:\n";
  for (size_t i = 0; i < limits; ++i) {
    const std::string number = std::to_string(i);
    text += "      - {name: l";
    text += number;
    text += ", match: {path: /p";
    text += number;
    text += "}, key: [user], rate: 100/min}\n";
  }
  return text;
}

// Nanoseconds a check in a policy of `limits` limits, when `asked` of them are asked for in turn.
double PolicyNanos(Limiter& limiter, GivenClock& clock, size_t asked) {
  constexpr size_t kCalls = 1 << 18;
  std::vector<std::string> paths;
  for (size_t i = 0; i < asked; ++i) paths.push_back("/p" + std::to_string(i * 7919 % asked));
  uint64_t wrong = 0;
  const double ns = NanosPer(kCalls, [&] {
    for (size_t i = 0, at = 0; i < kCalls; ++i, at = at + 1 == asked ? 0 : at + 1) {
      const std::array<Attribute, 2> attributes = {{{"user", "42"}, {"path", paths[at]}}};
      clock.Advance({1});
      wrong += limiter.Check("bench", attributes).limits.size() != 1;
    }
  });
  if (wrong != 0) std::abort();
  return ns;
}

void PolicySizes(size_t rounds) {
  GivenClock clock;
  LimiterOptions options;
  options.policy_text = PolicyOf(10);
  Expected<Limiter> small = LimiterOpener::Open(options, &clock);
  options.policy_text = PolicyOf(100'000);
  Expected<Limiter> large = LimiterOpener::Open(options, &clock);
  if (!small || !large) std::abort();
  std::vector<double> ten;
  std::vector<double> ten_of_many;
  std::vector<double> all_of_many;
  for (size_t i = 0; i <= rounds; ++i) {
    const double in_small = PolicyNanos(*small, clock, 10);
    const double in_large = PolicyNanos(*large, clock, 10);
    const double over_large = PolicyNanos(*large, clock, 100'000);
    if (i == 0) continue;  // warms up
    ten.push_back(in_small);
    ten_of_many.push_back(in_large);
    all_of_many.push_back(over_large);
  }
  std::printf(
      "library, policy of 10 limits: %.1f ns; of 100,000, ten of them asked for: %.1f ns (%.2f); all: %.1f "
      "ns (%.2f)\n",
      Median(ten), Median(ten_of_many), Median(ten) / Median(ten_of_many), Median(all_of_many),
      Median(ten) / Median(all_of_many));
}

int Main(std::span<char*> arguments) {
  size_t keys = 1'000'000;
  size_t fill = 10'000'000;
  size_t rounds = 5;
  for (size_t i = 1; i + 1 < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    const size_t value = std::strtoull(arguments[i + 1], nullptr, 10);
    if (name == "--keys") keys = value;
    if (name == "--fill") fill = value;
    if (name == "--rounds") rounds = value;
  }
  if (keys > 0) Speed(keys, rounds);
  if (keys > 0) PolicySizes(rounds);
  if (fill > 0) Memory(fill);
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(std::span(argv, static_cast<size_t>(argc))); }
