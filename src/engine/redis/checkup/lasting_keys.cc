#include "engine/redis/checkup/lasting_keys.h"

namespace penstock::checkup {
namespace {

// Behind the prefix; nothing where the key has another.
std::string_view NameOf(std::string_view prefix, std::string_view key) {
  return key.starts_with(prefix) ? key.substr(prefix.size()) : std::string_view();
}

}  // namespace

bool IsLastingKey(std::string_view prefix, std::string_view key) {
  const std::string_view name = NameOf(prefix, key);
  const bool marker =
      name == "strict" || (name.size() == 12 && name[0] == '{' && name.substr(5) == "}strict");
  return marker || name == "{registry}" || name == "{registry}:versions";
}

bool IsBookKey(std::string_view prefix, std::string_view key) {
  const std::string_view name = NameOf(prefix, key);
  const bool permits = name.size() == 40 && name[0] == '{' && name.substr(5, 3) == "}p:";
  return IsLastingKey(prefix, key) || name == "{fleet}" || permits;
}

}  // namespace penstock::checkup
