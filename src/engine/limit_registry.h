// The registry: what an engine knows of the limits themselves (rule E6). It gives every limit its version, larger than
// any given before, and keeps what the limit says as text, so that every node can make it again. What was set at run
// time (put) beats what files say until it is removed.
//
// Thread contract: the session's event loop, as the session that it belongs to. `done` comes on that loop, exactly once:
// inline where the engine is in this process, else later, and with kUnavailable when the engine did not answer in time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/limit.h"

namespace penstock::engine {

// Bounds of one limit's text and of a registry.
inline constexpr size_t kMaxDefinitionBytes = 2 * 1024 * 1024;
inline constexpr size_t kMaxRegisteredLimits = 1'000'000;

// What is in force of one limit.
struct RegisteredLimit {
  std::string domain;
  std::string name;
  core::Version version = 0;  // of what is in force
  bool put = false;           // set at run time; else it comes from a file
  int64_t revision = 0;       // of that file; 0: none
  std::string definition;     // empty: removed, nothing is in force
};

// What a node says of one limit.
//
// A load (held 0): its file says so. Equal content keeps its version. Other content gets a new one, unless the registry
// has it from a file of a higher revision, which the node then follows; the same revision above 0 is refused. Files
// without revision (0): the newest load wins. While a put is in force a load is kept for after it.
//
// A restoration (held > 0): the node has this in force under that version. It is written back as it is when the
// registry has nothing, or something older; else nothing happens.
struct Claim {
  std::string domain;
  std::string name;
  std::string definition;  // empty only in a restoration: the node knows that it was removed
  int64_t revision = 0;
  bool put = false;  // restorations only
  core::Version held = 0;
  // Buckets have been seen with this version, which the registry has forgotten: what is in force gets one above it.
  core::Version above = 0;
};

// Where a registry stands. Equal marks: the same content.
struct RegistryMark {
  int64_t born = 0;        // when it was begun; another one: it was lost in between. 0: it is empty
  core::Version last = 0;  // the newest version in it, or given
  int64_t sum = 0;         // of all its versions, modulo kRegistrySumModulus

  friend bool operator==(const RegistryMark&, const RegistryMark&) = default;
};
inline constexpr int64_t kRegistrySumModulus = int64_t{1} << 52;

struct RegistryChanges {
  RegistryMark mark;  // with all of these limits
  std::vector<RegisteredLimit> limits;
};

class LimitRegistry {
 public:
  using RegisterDone = std::function<void(Result<std::vector<RegisteredLimit>>)>;
  using ChangeDone = std::function<void(Result<RegisteredLimit>)>;
  using ChangesDone = std::function<void(Result<RegistryChanges>)>;

  virtual ~LimitRegistry() = default;

  // What is in force of each claim's limit, in their order. kConflict names a limit that was refused: then none of the
  // loads was registered (over a network, unless two nodes load at the same instant).
  virtual void Register(std::vector<Claim> claims, RegisterDone done) = 0;

  // Sets a limit at run time. `if_match`: only while this version is in force, else kConflict (also when nothing is).
  virtual void Put(std::string domain, std::string name, std::string definition,
                   std::optional<core::Version> if_match, ChangeDone done) = 0;
  // Ends that: what a file said is in force again, or nothing. kNotFound: it is not set at run time.
  virtual void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
                      ChangeDone done) = 0;

  // Every limit whose version is above `since`, what was removed included; 0: all.
  virtual void Changes(core::Version since, ChangesDone done) = 0;

  // Calls back on the session's loop when there may be changes to ask for, as long as the session is open; at once or
  // ever is not promised. One callback, the last that was given.
  virtual void OnHint(const std::function<void()>& heard) { (void)heard; }
};

}  // namespace penstock::engine
