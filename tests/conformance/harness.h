// The conformance suite: what every engine must do, asked through the Engine contract alone. An engine joins by
// listing a factory (EngineFactories); its clock can be moved by the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/limit.h"
#include "core/params.h"
#include "engine/engine.h"
#include "engine/permit_id.h"

namespace penstock::conformance {

// One event loop with its session. Belongs to the thread that opened it.
class TestLoop {
 public:
  virtual ~TestLoop() = default;
  virtual engine::EngineSession& session() = 0;
  // The engine's clock was moved: what the session knows of it is learnt anew.
  virtual void LearnClock() {}
  // Lets the loop work until `done` is true; a failure of the test if that never comes.
  virtual void RunUntil(const bool& done) = 0;
  // Of a decision: so late that none is missed, though a test moves the engine's clock by days.
  virtual SteadyTime deadline() const { return {INT64_MAX}; }
};

class TestEngine {
 public:
  virtual ~TestEngine() = default;
  virtual engine::Engine& engine() = 0;
  // The engine's clock, which the test moves, back too. Not while another thread decides.
  virtual EngineTime now() const = 0;
  virtual void SetNow(EngineTime now) = 0;
  // Any thread.
  virtual std::unique_ptr<TestLoop> OpenLoop() = 0;
  // Whether requests of one batch that share a bucket are decided in their order. The contract does not say so.
  virtual bool keeps_order() const { return true; }
  // Whether a request with several keys is decided in one place. Elsewhere what was given back is charged again when
  // another limit refuses, in whole costs: then a begun one counts as whole.
  virtual bool in_one_place() const { return true; }
};

struct EngineFactory {
  std::string name;
  std::function<std::unique_ptr<TestEngine>()> make;
};
std::vector<EngineFactory> EngineFactories();

// A whole minute, hour and day begin here.
inline constexpr EngineTime kStart{1'800'057'600'000'000};

core::RateSpec Bucket(int64_t count, Micros period, int64_t burst);
core::RateSpec Bucket(int64_t count, Micros period);
core::RateSpec Fixed(int64_t count, Micros period, core::WindowKind kind = core::WindowKind::kEpoch);
core::RateSpec Sliding(int64_t count, Micros period);
core::RateSpec Log(int64_t count, Micros period);
core::RateSpec Semaphore(int64_t permits, Micros lease);
inline constexpr Micros kMinute = Seconds(60);
inline constexpr Micros kHour = Seconds(3'600);
inline constexpr Micros kDay = Seconds(86'400);

std::unique_ptr<core::Limit> MakeLimit(std::string name, const core::RateSpec& spec);

// One operation of a request.
struct Ask {
  const core::Limit* limit = nullptr;
  std::string_view key = "k";
  int64_t cost = 1;
  uint8_t unit = 0;
  const core::WindowBoundaries* boundaries = nullptr;
  core::Charge charge{};  // kAdjust: the charge that cost changes
};

// One request.
struct Request {
  std::vector<Ask> asks;
  core::GroupOptions options{};
  engine::Mode mode = engine::Mode::kCheck;
  std::string_view request_id{};
  uint64_t fingerprint = 1;
  Micros keep_id = Seconds(60);
  std::string_view domain = "d";
  std::optional<core::PermitAsk> permit{};
  engine::HolderList* listing = nullptr;  // kHolders
};

struct Part {
  core::Verdict verdict;
  bool skipped = false;
  core::Charge charge{};
  Hash128 name{};  // the engine's own, where it has one
};

struct Answer {
  engine::GroupResult result;
  std::vector<Part> parts;
  // Of all permit limits of the request: what was granted (size 0: nothing), or what stands in a queue.
  engine::PermitId permit;
  engine::PermitId waiting;
  Outcome outcome() const;  // over the enforced limits, as the service does it
  const core::Verdict& operator[](size_t i) const { return parts[i].verdict; }
};

// Asks an engine on one loop.
class Client {
 public:
  explicit Client(TestEngine& engine);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Register(std::initializer_list<core::Limit*> limits);
  Result<void> TryRegister(const std::vector<core::Limit*>& limits);
  void BindAdHoc(core::Limit& limit) { loop_->session().BindAdHoc(limit); }
  std::vector<Answer> Ask(const std::vector<Request>& requests);
  Answer Ask(const Request& request) { return Ask(std::vector{request})[0]; }
  core::Verdict Check(const core::Limit& limit, int64_t cost = 1, std::string_view key = "k",
                      const core::GroupOptions& options = {});
  engine::EngineSession& session() { return loop_->session(); }

  std::vector<engine::PermitCall> Call(std::vector<engine::PermitCall> calls);
  engine::PermitCall Call(engine::PermitVerb verb, const engine::PermitId& permit, Micros lease = {});
  core::PermitFate Release(const engine::PermitId& permit) {
    return Call(engine::PermitVerb::kRelease, permit).fate;
  }
  core::PermitFate Renew(const engine::PermitId& permit, Micros lease = {}) {
    return Call(engine::PermitVerb::kRenew, permit, lease).fate;
  }
  // Takes it out of the queues it stands in.
  core::PermitFate Leave(const engine::PermitId& waiting) {
    return Call(engine::PermitVerb::kLeave, waiting).fate;
  }
  engine::HolderList Holders(const core::Limit& limit, std::string_view only = {},
                             std::string_view key = "k");
  // Lets the loop work until this permit has been woken (since the last call that waited for it).
  void RunUntilWoken(const Hash128& permit);

 private:
  class Collector;
  class CallCollector;
  class Waker;
  std::unique_ptr<TestLoop> loop_;
  std::unique_ptr<Waker> waker_;
  engine::Batch batch_;
};

class ConformanceTest : public testing::TestWithParam<EngineFactory> {
 protected:
  ConformanceTest() : engine_(GetParam().make()), client_(*engine_) { engine_->SetNow(kStart); }

  void Advance(Micros by) { engine_->SetNow(engine_->now() + by); }
  // A limit that the engine has registered.
  std::unique_ptr<core::Limit> Registered(std::string name, const core::RateSpec& spec);
  // One whose bucket stands beside those of its kind with the same key, however a store divides its keys.
  std::unique_ptr<core::Limit> RegisteredBeside(std::string name, const core::RateSpec& spec);
  // The same for a limit with other parameters: a reload.
  std::unique_ptr<core::Limit> Changed(const core::Limit& limit, const core::RateSpec& spec);

  std::unique_ptr<TestEngine> engine_;
  Client client_;
};

inline void PrintTo(const EngineFactory& factory, std::ostream* out) { *out << factory.name; }

// Names the parameter in test names.
std::string EngineName(const testing::TestParamInfo<EngineFactory>& info);

// The seed of a random test: PENSTOCK_SEED, or a fixed one. Printed.
uint64_t Seed();

}  // namespace penstock::conformance
