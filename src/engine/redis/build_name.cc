#include "engine/redis/build_name.h"

#include <cstdint>

#include "engine/redis/script.h"

namespace penstock::engine::redis {
namespace {

// FNV-1a over the scripts' digests: they are digests already, and this tells builds apart for a reader, no more.
std::string Digest() {
  constexpr int kDigits = 12;
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const Script& script : Scripts()) {
    for (const char digit : script.sha1) hash = (hash ^ static_cast<unsigned char>(digit)) * 0x100000001b3ULL;
  }
  std::string out;
  for (int i = 0; i < kDigits; ++i) out += "0123456789abcdef"[(hash >> (60 - 4 * i)) & 15];
  return out;
}

}  // namespace

const std::string& ScriptsBuild() {
  static const std::string build = Digest();
  return build;
}

const std::string& ConnectionName() {
  static const std::string name = std::string(kConnectionNameStem) + ScriptsBuild();
  return name;
}

}  // namespace penstock::engine::redis
