// What was read of one server, as far as it could be read.
//
// Thread contract: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/redis/checkup/value.h"
#include "engine/redis/options.h"

namespace penstock::checkup {

struct ServerFacts {
  std::string where;  // host:port
  bool replica = false;
  Fields info;                 // INFO
  std::string info_refused;    // why not, where it could not be had
  Fields config;               // CONFIG GET of the settings in kSettings
  std::string config_refused;  // likewise
};

struct Deployment {
  engine::redis::TopologyKind kind = engine::redis::TopologyKind::kSingle;
  std::vector<ServerFacts> servers;  // masters and replicas

  // Something takes a master's place when it fails.
  bool HasFailover() const { return kind != engine::redis::TopologyKind::kSingle; }
  bool HasReplicas() const;
};

// What CONFIG GET is asked for.
std::span<const std::string_view> Settings();

// A setting by CONFIG GET, or else by INFO under its own name there (empty: INFO has none). Null where neither has it.
const std::string* Setting(const ServerFacts& server, std::string_view config, std::string_view info = {});

// The same as a number.
std::optional<int64_t> NumberSetting(const ServerFacts& server, std::string_view config,
                                     std::string_view info = {});

// Why a setting is not known.
std::string WhyUnknown(const ServerFacts& server);

}  // namespace penstock::checkup
