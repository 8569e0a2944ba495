// The commands of `penstock`, without their flags: main.cc reads the command line into these structs and calls the
// command, which prints and says the exit code.
//
//   0 allowed, fine · 1 denied, a finding · 2 usage or policy error · 3 unavailable
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::app {

inline constexpr int kExitFine = 0;
inline constexpr int kExitDenied = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 3;

struct CheckFlags {
  std::string domain;
  std::vector<std::string> attributes;  // name=value
  int64_t cost = 1;
  std::string server;  // empty: http://127.0.0.1:8080
  std::string policy;  // not empty: a fresh engine under this policy instead of a server
  bool json = false;
};
int RunCheck(const CheckFlags& flags);

// Whose permit, and on which terms: a domain with attributes, or a key whose permits and lease the caller says.
struct PermitFlags {
  std::string domain;
  std::vector<std::string> attributes;  // name=value
  std::string key;
  int64_t permits = 0;  // with key
  std::string lease;    // as a policy says it, 30s; empty: the limit's own
  int64_t weight = 1;
  int64_t cost = 1;        // for rates in the same request
  std::string wait;        // in the queue; empty: not at all
  std::string holder;      // a name for people
  std::string request_id;  // makes a repeat safe
  std::string server;      // empty: http://127.0.0.1:8080
  bool json = false;
};
int RunAcquire(const PermitFlags& flags);

struct ReleaseFlags {
  std::vector<std::string> what;  // ids; with holder: the attributes of the bucket, name=value
  std::string holder;             // not empty: all permits of this name
  std::string domain;             // with holder
  std::string limit;              // with holder
  std::string key;                // with holder, instead of domain and limit
  std::string server;
  bool json = false;
};
int RunRelease(const ReleaseFlags& flags);

struct RenewFlags {
  std::string id;
  std::string lease;  // empty: the limit's own
  std::string server;
  bool json = false;
};
int RunRenew(const RenewFlags& flags);

struct HoldersFlags {
  std::string domain;
  std::string limit;
  std::vector<std::string> attributes;
  std::string key;     // instead of them
  std::string holder;  // not empty: only those of this name
  std::string server;
  bool json = false;
};
int RunHolders(const HoldersFlags& flags);

struct RunFlags {
  PermitFlags permit;
  std::string on_loss = "warn";  // or kill
  std::string grace = "10s";     // between TERM and KILL
  std::vector<std::string> command;
};
// The command's exit code, 128 + n where a signal n ended it, 127 and 126 where it cannot be run.
int RunRun(const RunFlags& flags);

struct LintFlags {
  std::string file;
  std::string against;  // not empty: a policy that is in force
  bool json = false;
};
int RunLint(const LintFlags& flags);

struct LimitsFlags {
  std::string what;  // list, get, set, delete, reset
  std::string domain;
  std::string name;
  std::string definition;               // set: one limit as a policy file says it
  std::string file;                     // set: where that stands instead; - is the standard input
  std::vector<std::string> attributes;  // reset: name=value
  std::string if_match;                 // set, delete: the version that must be in force; empty = any
  std::string server;                   // empty: http://127.0.0.1:8080
  bool json = false;
};
int RunLimits(const LimitsFlags& flags);

struct BenchFlags {
  std::string what = "embedded";  // embedded, resp, http
  std::string target;             // empty: the default port of the protocol
  uint32_t connections = 50;
  uint32_t pipeline = 0;  // 0: 64 embedded, 32 RESP, 1 HTTP
  uint32_t threads = 1;   // embedded
  uint64_t requests = 0;  // 0: for the duration
  double seconds = 5;
  uint64_t keys = 100'000;
  int64_t burst = 15;  // of the limit that every key has: burst, count per period
  int64_t count = 30;
  int64_t period_s = 60;
  uint64_t seed = 1;
  bool json = false;
};
int RunBench(const BenchFlags& flags);

struct VerifyFlags {
  std::string engine;    // URL; empty: the policy's
  std::string policy;    // whose engine section is taken
  std::string prefix;    // empty: the policy's
  std::string acl_user;  // whose rights are checked; empty: the URL's user
  bool failover = false;
  uint64_t max_keys = 100'000;
  bool json = false;
};
int RunVerify(const VerifyFlags& flags);

int RunVersion(bool json);

// PENSTOCK_TOKEN, or empty.
std::string TokenFromEnvironment();
// An error on stderr; returns the code.
int Complain(int code, const std::string& message);

}  // namespace penstock::app
