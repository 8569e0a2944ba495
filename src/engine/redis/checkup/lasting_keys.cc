#include "engine/redis/checkup/lasting_keys.h"

namespace penstock::checkup {

bool IsLastingKey(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return false;
  key.remove_prefix(prefix.size());
  return key == "{registry}" || key == "{registry}:versions";
}

}  // namespace penstock::checkup
