// The scripts on the servers: every one of this build is there or can be loaded, and answers by its sha; and which other
// builds of Penstock are connected.
//
// Thread contract: pure functions over what was read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/value.h"

namespace penstock::checkup {

struct ScriptProbe {
  std::string where;
  std::string_view name;
  std::string sha1;
  bool loaded_before = false;
  Value loaded;  // SCRIPT LOAD
  Value called;  // EVALSHA without keys: any answer but NOSCRIPT and NOPERM
};
// "scripts"
Finding CheckScripts(const std::vector<ScriptProbe>& probes);

// From CLIENT LIST: how many connections of each build there are. Connections of Penstock are named after their build.
std::map<std::string, size_t> ParseBuilds(std::string_view client_list, std::string_view own_name_stem);
// "builds". `refused`: why CLIENT LIST could not be asked.
Finding CheckBuilds(const std::map<std::string, size_t>& builds, std::string_view own,
                    std::string_view refused);

}  // namespace penstock::checkup
