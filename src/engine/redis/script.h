// The Lua scripts that decide inside Redis. Their text is composed of the files in lua/ when Penstock is built.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::engine::redis {

struct Script {
  std::string_view name;  // of the algorithm, or of what it does
  std::string_view text;
  std::string sha1;  // 40 hexadecimal digits: what EVALSHA calls it by
};

// Every script of this build; the same objects for the life of the process.
std::span<const Script> Scripts();

}  // namespace penstock::engine::redis
