// The text of /metrics (Prometheus 0.0.4): base units, never a label by user or key.
//
// Thread contract: a plain function; what it reads is for any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/histogram.h"
#include "engine/engine.h"
#include "service/failover/node.h"
#include "service/metrics.h"
#include "service/permit_watch.h"

namespace penstock::api {

struct ProtocolMetrics {
  std::string_view protocol;  // http, resp
  LatencySums latency;        // of decisions
  uint64_t connections = 0;   // open now
  uint64_t accepted = 0;
  uint64_t timed_out = 0;
  uint64_t failed_handshakes = 0;
  uint64_t accept_pauses = 0;
};

struct MetricsInput {
  const service::Metrics& decisions;
  std::span<const service::PermitGauge> permits{};  // of the watch's last round
  std::string_view engine_name;
  engine::EngineStats engine;
  std::span<const ProtocolMetrics> protocols;
  uint64_t policy_version = 0;  // publications since the start
  uint64_t reloads_ok = 0;
  uint64_t reloads_failed = 0;
  uint64_t snapshot_failures = 0;
  uint64_t last_snapshot_s = 0;  // unix time of the last one written; 0: none
  // Of what stands in for an engine that does not answer; null where nothing does.
  const service::FailoverStats* failover = nullptr;
};

void AppendMetrics(std::string& out, const MetricsInput& input);

}  // namespace penstock::api
