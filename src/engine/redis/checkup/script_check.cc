#include "engine/redis/checkup/script_check.h"

#include <algorithm>

namespace penstock::checkup {

Finding CheckScripts(const std::vector<ScriptProbe>& probes) {
  Finding finding("scripts");
  size_t there = 0;
  for (const ScriptProbe& probe : probes) {
    const std::string name = std::string(probe.name) + " " + probe.sha1;
    const std::string_view code = probe.loaded.code();
    if (probe.loaded.is_error() || probe.loaded.text != probe.sha1) {
      finding.Add(Status::kFailed, probe.where, name + " cannot be loaded: " + probe.loaded.text,
                  "the server does not take a script of this build: decisions are unavailable",
                  code == "NOPERM" ? "add +script|load to the user" : "look into the server's answer");
    } else if (probe.called.is_error() &&
               (probe.called.code() == "NOSCRIPT" || probe.called.code() == "NOPERM")) {
      finding.Add(
          Status::kFailed, probe.where, name + " does not answer: " + probe.called.text,
          "a script was loaded and cannot be called by its sha: decisions are unavailable",
          probe.called.code() == "NOPERM" ? "add +evalsha to the user" : "look for who calls SCRIPT FLUSH");
    } else {
      there += probe.loaded_before ? 1 : 0;
      finding.Add(Status::kOk, probe.where, name + (probe.loaded_before ? ", there" : ", loaded now"),
                  "the scripts of this build are there and answer by their sha");
    }
  }
  finding.figure = std::to_string(probes.size()) + " scripts of this build, " + std::to_string(there) +
                   " were there before";
  return finding;
}

std::map<std::string, size_t> ParseBuilds(std::string_view client_list, std::string_view own_name_stem) {
  std::map<std::string, size_t> builds;
  const std::string mark = " name=" + std::string(own_name_stem);
  while (!client_list.empty()) {
    const size_t end = std::min(client_list.find('\n'), client_list.size());
    const std::string_view line = client_list.substr(0, end);
    client_list.remove_prefix(std::min(end + 1, client_list.size()));
    const size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view build = line.substr(at + mark.size());
    ++builds[std::string(build.substr(0, build.find(' ')))];
  }
  return builds;
}

Finding CheckBuilds(const std::map<std::string, size_t>& builds, std::string_view own,
                    std::string_view refused) {
  Finding finding("builds");
  if (!refused.empty()) {
    finding.figure = "not known";
    finding.Add(Status::kSkipped, "", "CLIENT LIST: " + std::string(refused),
                "could not be asked: the user may not see who is connected",
                "add +client|list to the user that verify runs as");
    return finding;
  }
  size_t others = 0;
  size_t ours = 0;
  for (const auto& [build, count] : builds) {
    const std::string what = std::to_string(count) + " connections";
    if (build == own) {
      ours = count;
      finding.Add(Status::kOk, "scripts " + build, what + ", this build",
                  "every node runs the scripts of this build");
    } else {
      ++others;
      finding.Add(Status::kWarning, "scripts " + build, what + ", another build",
                  "nodes with other scripts are connected: the older ones answer unavailable for buckets in "
                  "a newer layout",
                  "finish the roll-out; until then this is as it should be");
    }
  }
  finding.figure =
      std::to_string(ours) + " connections of this build, " + std::to_string(others) + " other builds";
  if (finding.details.empty())
    finding.Add(Status::kOk, "", "no node is connected", "no node of another build is connected");
  return finding;
}

}  // namespace penstock::checkup
