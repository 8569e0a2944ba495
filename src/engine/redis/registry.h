// The registry inside a Redis (lua/registry.lua): two keys with one hash tag, `<prefix>{registry}` and
// `<prefix>{registry}:versions`, which never expire.
//
// Every call is a row of script calls, one at a time, each for at most kMaxNames limits and about kMaxBytes, so that
// Redis is never held up for long. A load asks for digests first and sends only what differs: a node that starts on
// a registry that knows its file sends no definition.
//
// A call that cannot be sent is tried again until kPatience has passed; one that was sent is not. Each carries
// not_after, so that what was answered kUnavailable is not done later by a server that wakes up, unless its reply was
// lost on the way.
//
// A call that changed something published a hint in the same step (hints.h); who follows the registry hears of these
// at most every kHintPause.
//
// Thread contract: one event loop's thread. `done` never comes after this object is gone. All parts outlive it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "engine/limit_registry.h"
#include "engine/redis/exchange.h"
#include "engine/redis/hints.h"
#include "engine/redis/script.h"
#include "engine/redis/topology.h"
#include "engine/redis/topology_parts.h"

namespace penstock::engine::redis {

struct RegistryParts {
  Topology& topology;
  Timer& timer;
  const Clock& clock;
  const Script& script;     // ScriptKind::kRegistry
  std::string_view prefix;  // Options::prefix
  // Both or none.
  Hints* hints = nullptr;
  Executor* executor = nullptr;
};

class RedisRegistry final : public LimitRegistry {
 public:
  static constexpr size_t kMaxNames = 256;  // of one script call
  static constexpr size_t kMaxBytes =
      256 * 1024;  // of the definitions in one; more only if one alone takes more
  static constexpr Micros kPatience = Seconds(1);  // of one script call
  static constexpr Micros kRetry = Millis(20);
  static constexpr Micros kHintPause = Millis(50);
  static constexpr size_t kMaxCalls = 64;  // under way at once; beyond, kUnavailable

  explicit RedisRegistry(const RegistryParts& parts);
  // What is under way hears nothing any more.
  ~RedisRegistry() override;
  RedisRegistry(const RedisRegistry&) = delete;
  RedisRegistry& operator=(const RedisRegistry&) = delete;

  // The session is closed: what is under way hears nothing any more, what comes is kUnavailable.
  void Close();

  void Register(std::vector<Claim> claims, RegisterDone done) override;
  void Put(std::string domain, std::string name, std::string definition,
           std::optional<core::Version> if_match, ChangeDone done) override;
  void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
              ChangeDone done) override;
  void Changes(core::Version since, ChangesDone done) override;
  void OnHint(const std::function<void()>& heard) override;

 private:
  class Call;
  struct Registration;
  struct Reading;
  // The answer's parts; the first is `ok`. An Error says why there is none.
  using Parts = std::vector<std::string_view>;
  using Answer = std::function<void(const Result<Parts>&)>;

  void Ask(std::vector<std::string> arguments, Answer answer);
  void Forget(const Call& call);

  void LookAt(const std::shared_ptr<Registration>& registration);
  void Judge(const std::shared_ptr<Registration>& registration, const Parts& heads);
  void WriteNext(const std::shared_ptr<Registration>& registration);
  void ReadNext(const std::shared_ptr<Registration>& registration);
  void ReadOn(const std::shared_ptr<Reading>& reading);

  // Constant after construction.
  const RegistryParts parts_;
  const std::string limits_key_;
  const std::string versions_key_;

  bool closed_ = false;
  std::vector<std::unique_ptr<Call>> calls_;
  std::function<void()> on_hint_;
  std::unique_ptr<Hints::Listening> listening_;
  Alarm hint_alarm_;
  SteadyTime next_hint_;  // not told before
};

}  // namespace penstock::engine::redis
