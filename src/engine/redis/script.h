// The Lua scripts that decide inside Redis. Their text is composed of the files in lua/ when Penstock is built.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::engine::redis {

struct Script {
  std::string_view name;  // of the algorithm, or of what it does
  std::string text;
  std::string sha1;  // 40 hexadecimal digits: what EVALSHA calls it by
};

// The plain ones stand as core::Algorithm does. kPermitCalls is for what is asked about permits by their ids
// (permit_caller.h). The last two decide nothing: a node's heartbeat (fleet.h), and the registry of limits (registry.h).
enum class ScriptKind : uint8_t {
  kTokenBucket,
  kFixedWindow,
  kSlidingWindow,
  kSlidingLog,
  kPermits,
  kGroup,
  kPermitCalls,
  kFleet,
  kRegistry
};

// As Script::sha1, of any bytes.
std::string Sha1(std::string_view bytes);

// Every script of this build, in the order of ScriptKind; the same objects for the life of the process.
std::span<const Script> Scripts();
// The same with a text before each body (Options::script_prelude).
std::vector<Script> ScriptsWith(std::string_view prelude);

}  // namespace penstock::engine::redis
