#include "engine/redis/checkup/server_facts.h"

#include <algorithm>

#include "base/bytes.h"

namespace penstock::checkup {

bool Deployment::HasReplicas() const {
  return std::any_of(servers.begin(), servers.end(), [](const ServerFacts& server) {
    return server.replica || Number(server.info, "connected_slaves").value_or(0) > 0;
  });
}

std::span<const std::string_view> Settings() {
  static constexpr std::string_view kSettings[] = {"maxmemory",
                                                   "maxmemory-policy",
                                                   "save",
                                                   "appendonly",
                                                   "appendfsync",
                                                   "maxclients",
                                                   "timeout",
                                                   "min-replicas-to-write",
                                                   "min-replicas-max-lag",
                                                   "replica-read-only",
                                                   "cluster-require-full-coverage"};
  return kSettings;
}

const std::string* Setting(const ServerFacts& server, std::string_view config, std::string_view info) {
  if (const auto found = server.config.find(config); found != server.config.end()) return &found->second;
  if (info.empty()) return nullptr;
  const auto found = server.info.find(info);
  return found == server.info.end() ? nullptr : &found->second;
}

std::optional<int64_t> NumberSetting(const ServerFacts& server, std::string_view config,
                                     std::string_view info) {
  const std::string* const text = Setting(server, config, info);
  return ParseInt(text == nullptr ? std::string_view() : std::string_view(*text));
}

std::string WhyUnknown(const ServerFacts& server) {
  if (!server.config_refused.empty()) return "CONFIG GET: " + server.config_refused;
  return server.info_refused.empty() ? "the server does not say" : "INFO: " + server.info_refused;
}

}  // namespace penstock::checkup
