// The scripts' texts, in the order of ScriptKind. The source is made by lua/compose.cmake.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::engine::redis {

struct ScriptText {
  std::string_view name;
  std::string_view text;
};

inline constexpr size_t kScriptCount = 9;
extern const ScriptText kScriptTexts[kScriptCount];

}  // namespace penstock::engine::redis
