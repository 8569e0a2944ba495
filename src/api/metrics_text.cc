#include "api/metrics_text.h"

#include <array>
#include <utility>

#include "api/metrics_writer.h"
#include "base/bytes.h"

namespace penstock::api {
namespace {

// Microseconds as a decimal number of seconds, exactly.
void AppendSeconds(std::string& out, uint64_t us) {
  AppendInt(out, static_cast<int64_t>(us / 1'000'000));
  uint64_t fraction = us % 1'000'000;
  if (fraction == 0) return;
  char digits[7] = "000000";
  for (int i = 5; i >= 0; --i, fraction /= 10) digits[i] = static_cast<char>('0' + fraction % 10);
  size_t length = 6;
  while (digits[length - 1] == '0') --length;
  out += '.';
  out.append(digits, length);
}

void AppendDecisions(std::string& out, const service::Metrics& metrics) {
  constexpr std::string_view kName = "penstock_decisions_total";
  Head(out, kName, "counter", "Decisions of enforced limits, by the limit's own outcome.");
  metrics.ForEachLimit([&](std::string_view domain, std::string_view limit,
                           const service::LimitCounts& counts) {
    for (size_t i = 0; i < service::kOutcomes; ++i) {
      const std::string_view outcome = ToString(static_cast<Outcome>(i));
      const uint64_t all = counts.outcomes[i];
      const uint64_t degraded = counts.degraded[i];
      Sample(out, kName, {{"domain", domain}, {"limit", limit}, {"outcome", outcome}, {"degraded", "false"}},
             all);
      if (degraded > 0) {
        Sample(out, kName, {{"domain", domain}, {"limit", limit}, {"outcome", outcome}, {"degraded", "true"}},
               degraded);
      }
    }
  });
  constexpr std::string_view kShadow = "penstock_shadow_decisions_total";
  Head(out, kShadow, "counter", "Decisions of shadow limits; denied and never mean: would deny.");
  metrics.ForEachLimit([&](std::string_view domain, std::string_view limit,
                           const service::LimitCounts& counts) {
    for (size_t i = 0; i < service::kOutcomes; ++i) {
      if (counts.shadow[i] == 0) continue;
      const std::string_view outcome = ToString(static_cast<Outcome>(i));
      Sample(out, kShadow, {{"domain", domain}, {"limit", limit}, {"outcome", outcome}}, counts.shadow[i]);
    }
  });
  constexpr std::string_view kSaturated = "penstock_limit_saturated_total";
  Head(out, kSaturated, "counter", "Charges of a limit held at the largest number that stays exact.");
  metrics.ForEachLimit(
      [&](std::string_view domain, std::string_view limit, const service::LimitCounts& counts) {
        if (counts.saturated > 0)
          Sample(out, kSaturated, {{"domain", domain}, {"limit", limit}}, counts.saturated);
      });
}

void AppendTotals(std::string& out, const service::TotalCounts& totals) {
  Single(out, "penstock_requests_total", "counter", "Checks that were asked.", totals.requests);
  Single(out, "penstock_requests_unmatched_total", "counter", "Checks to which no limit applied.",
         totals.unmatched);
  Single(out, "penstock_requests_invalid_total", "counter", "Requests refused as the caller's mistake.",
         totals.invalid);
  Single(out, "penstock_request_id_conflicts_total", "counter", "Request ids in use by another request.",
         totals.conflicts);
  Single(out, "penstock_replays_total", "counter", "Repeats that got their first answer.", totals.replayed);
  Single(out, "penstock_not_replayable_total", "counter", "Charges whose request id could not be kept.",
         totals.not_replayable);
  Single(out, "penstock_repeats_total", "counter",
         "Checks decided again because the policy or the calendar had moved on.", totals.repeats);
  Single(out, "penstock_ad_hoc_limits_compiled_total", "counter", "Ad hoc limits that no cache held.",
         totals.ad_hoc_compiled);
}

void AppendPermits(std::string& out, const service::TotalCounts& totals, uint64_t reclaimed) {
  Single(out, "penstock_permits_granted_total", "counter", "Permits granted; the replay of a grant is none.",
         totals.permits_granted);
  Single(out, "penstock_permits_reclaimed_total", "counter",
         "Permits that came back because their lease had run out, as this node met them.", reclaimed);
  constexpr std::string_view kCalls = "penstock_permit_calls_total";
  Head(out, kCalls, "counter", "Releases and renewals, by what they were answered.");
  const std::pair<std::string_view, uint64_t> results[] = {{"released", totals.permits_released},
                                                           {"renewed", totals.permits_renewed},
                                                           {"expired", totals.permits_expired},
                                                           {"unknown", totals.permits_unknown},
                                                           {"unavailable", totals.permits_unavailable}};
  for (const auto& [result, count] : results) Sample(out, kCalls, {{"result", result}}, count);
  Single(out, "penstock_permits_handed_back_total", "counter",
         "Permits granted to somebody who had gone, and given back.", totals.permits_handed_back);
  Single(out, "penstock_permits_waiting", "gauge", "Requests that wait in queues for permits, on this node.",
         totals.permits_waiting);
  Single(out, "penstock_permit_waits_refused_total", "counter",
         "Requests denied at once because too many waited on this node already.", totals.waits_refused);
  Single(out, "penstock_permit_asks_again_total", "counter",
         "Calls to the engine for requests that wait: woken, or by the clock.", totals.asked_again);
  Single(out, "penstock_permit_releases_repeated_total", "counter",
         "Releases made again because the engine could not be asked before.", totals.releases_repeated);
  Single(out, "penstock_permit_releases_lost_total", "counter",
         "Releases given up on: the permit is held until its lease ends.", totals.releases_lost);
}

// Of permits: by limit, summed over the buckets that this node watches.
void AppendWatch(std::string& out, std::span<const service::PermitGauge> gauges) {
  using Gauge = service::PermitGauge;
  struct Column {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    uint64_t (*value)(const Gauge&);
  };
  static constexpr Column kColumns[] = {
      {"penstock_permits", "gauge", "Permits that there are, in the buckets that this node watches.",
       [](const Gauge& g) { return static_cast<uint64_t>(g.permits); }},
      {"penstock_permits_in_use", "gauge", "Of these: held by somebody, as the engine says.",
       [](const Gauge& g) { return static_cast<uint64_t>(g.in_use); }},
      {"penstock_permits_available", "gauge", "Of these: free.",
       [](const Gauge& g) { return static_cast<uint64_t>(g.available); }},
      {"penstock_permits_queued", "gauge", "Requests that wait for one, of all nodes.",
       [](const Gauge& g) { return static_cast<uint64_t>(g.waiting); }},
      {"penstock_permits_drift", "gauge", "Permits by which the sum and the set of holders differed.",
       [](const Gauge& g) { return static_cast<uint64_t>(g.drift); }},
      {"penstock_permits_drift_total", "counter", "The same, over all rounds.",
       [](const Gauge& g) { return g.drift_total; }},
      {"penstock_permits_watched_buckets", "gauge", "Buckets that this node watches.",
       [](const Gauge& g) { return g.buckets; }},
      {"penstock_permits_unasked_buckets", "gauge", "Of these: the engine did not answer in the last round.",
       [](const Gauge& g) { return g.unasked; }},
      {"penstock_permits_exhausted_buckets", "gauge", "Of these: nothing is free.",
       [](const Gauge& g) { return g.exhausted; }},
      {"penstock_permits_above_buckets", "gauge", "Of these: more is held than there is.",
       [](const Gauge& g) { return g.above; }},
  };
  for (const Column& column : kColumns) {
    Head(out, column.name, column.type, column.help);
    for (const Gauge& gauge : gauges) {
      Sample(out, column.name, {{"domain", gauge.domain}, {"limit", gauge.limit}}, column.value(gauge));
    }
  }
}

void AppendEngine(std::string& out, const MetricsInput& input,
                  const std::array<uint64_t, service::kReasons>& degraded) {
  const engine::EngineStats& e = input.engine;
  Single(out, "penstock_keys", "gauge", "Buckets in use.", e.keys);
  Single(out, "penstock_keys_max", "gauge", "Buckets that may be in use at a time.", e.max_keys);
  Single(out, "penstock_key_evictions_total", "counter",
         "Buckets dropped because they were the same as absent.", e.evictions);
  Single(out, "penstock_saturated_total", "counter", "Charges held at the largest number that stays exact.",
         e.saturated);
  Single(out, "penstock_request_ids", "gauge", "Request ids kept.", e.request_ids);
  constexpr std::string_view kErrors = "penstock_engine_errors_total";
  Head(out, kErrors, "counter", "Decisions that the engine could not take.");
  Sample(out, kErrors, {{"engine", input.engine_name}, {"reason", "full"}}, e.refused_full);
  Sample(out, kErrors, {{"engine", input.engine_name}, {"reason", "stale"}}, e.stale);
  for (const Reason reason :
       {Reason::kTimeout, Reason::kEngineDown, Reason::kOverload, Reason::kShuttingDown}) {
    Sample(out, kErrors, {{"engine", input.engine_name}, {"reason", ToString(reason)}},
           degraded[static_cast<size_t>(reason)]);
  }
}

void AppendDegraded(std::string& out, const std::array<uint64_t, service::kReasons>& degraded) {
  constexpr std::string_view kName = "penstock_degraded_total";
  Head(out, kName, "counter", "Checks answered, in part at least, without the engine, by the reason why.");
  for (size_t i = 0; i < degraded.size(); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (reason != Reason::kNone) Sample(out, kName, {{"reason", ToString(reason)}}, degraded[i]);
  }
}

void AppendFailover(std::string& out, const service::FailoverStats& stats) {
  Single(out, "penstock_local_decisions_total", "counter",
         "Requests decided under this node's share because the engine could not be asked.",
         stats.local_decisions);
  Single(out, "penstock_local_refusals_total", "counter",
         "Requests that no share could decide: the fleet is not known, the share is 0, or no room.",
         stats.without_share);
  Single(out, "penstock_local_buckets", "gauge",
         "Buckets decided without the engine of which it has not been told all.", stats.local_buckets);
  Single(out, "penstock_reconciled_total", "counter",
         "Units used without the engine that it has been told of.", stats.reported_units);
  Single(out, "penstock_reconciliation_lost_total", "counter",
         "Units used without the engine that it could not be told of.", stats.lost_units);
  Single(out, "penstock_reconciliation_retries_total", "counter",
         "Reports to the engine that failed and are made again.", stats.failed_reports);
  Single(out, "penstock_fleet_nodes", "gauge",
         "Nodes that share a limit while the engine does not answer; 0: not known, such limits deny.",
         stats.fleet.known ? stats.fleet.nodes : 0);
}

void AppendLatency(std::string& out, std::span<const ProtocolMetrics> protocols) {
  constexpr std::string_view kBucket = "penstock_decision_seconds_bucket";
  Head(out, "penstock_decision_seconds", "histogram", "From a parsed request to its answer.");
  for (const ProtocolMetrics& p : protocols) {
    uint64_t cumulative = 0;
    for (size_t i = 0; i < kLatencyBoundsUs.size(); ++i) {
      cumulative += p.latency.buckets[i];
      std::string bound;
      AppendSeconds(bound, static_cast<uint64_t>(kLatencyBoundsUs[i]));
      Sample(out, kBucket, {{"protocol", p.protocol}, {"le", bound}}, cumulative);
    }
    Sample(out, kBucket, {{"protocol", p.protocol}, {"le", "+Inf"}}, p.latency.count);
    Series(out, "penstock_decision_seconds_sum", {{"protocol", p.protocol}});
    AppendSeconds(out, p.latency.total_us);
    out += '\n';
    Sample(out, "penstock_decision_seconds_count", {{"protocol", p.protocol}}, p.latency.count);
  }
}

void AppendConnections(std::string& out, std::span<const ProtocolMetrics> protocols) {
  struct Family {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    uint64_t ProtocolMetrics::*value;
  };
  constexpr Family kFamilies[] = {
      {"penstock_connections", "gauge", "Open connections.", &ProtocolMetrics::connections},
      {"penstock_connections_accepted_total", "counter", "Connections taken.", &ProtocolMetrics::accepted},
      {"penstock_connections_timed_out_total", "counter", "Connections closed because their peer was silent.",
       &ProtocolMetrics::timed_out},
      {"penstock_tls_handshakes_failed_total", "counter", "TLS handshakes that came to nothing.",
       &ProtocolMetrics::failed_handshakes},
      {"penstock_accept_pauses_total", "counter",
       "Pauses in accepting: no file descriptor, or the most connections are open.",
       &ProtocolMetrics::accept_pauses},
  };
  for (const Family& family : kFamilies) {
    Head(out, family.name, family.type, family.help);
    for (const ProtocolMetrics& p : protocols)
      Sample(out, family.name, {{"protocol", p.protocol}}, p.*family.value);
  }
}

}  // namespace

void AppendMetrics(std::string& out, const MetricsInput& input) {
  AppendDecisions(out, input.decisions);
  const service::TotalCounts totals = input.decisions.Totals();
  AppendTotals(out, totals);
  AppendPermits(out, totals, input.engine.reclaimed_permits);
  AppendWatch(out, input.permits);
  AppendEngine(out, input, totals.degraded);
  AppendDegraded(out, totals.degraded);
  if (input.failover != nullptr) AppendFailover(out, *input.failover);
  AppendLatency(out, input.protocols);
  AppendConnections(out, input.protocols);
  Single(out, "penstock_policy_version", "gauge", "Policies published since the start.",
         input.policy_version);
  constexpr std::string_view kReloads = "penstock_policy_reloads_total";
  Head(out, kReloads, "counter", "Reloads of the policy.");
  Sample(out, kReloads, {{"result", "ok"}}, input.reloads_ok);
  Sample(out, kReloads, {{"result", "failed"}}, input.reloads_failed);
  Single(out, "penstock_snapshot_failures_total", "counter", "Snapshots that could not be written.",
         input.snapshot_failures);
  Single(out, "penstock_snapshot_last_success_seconds", "gauge",
         "Unix time of the last snapshot that was written; 0: none since the start.", input.last_snapshot_s);
}

}  // namespace penstock::api
