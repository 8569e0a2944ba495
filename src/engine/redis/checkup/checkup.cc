#include "engine/redis/checkup/checkup.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/redis/build_name.h"
#include "engine/redis/checkup/failover_check.h"
#include "engine/redis/checkup/parties.h"
#include "engine/redis/checkup/questions.h"
#include "engine/redis/checkup/scratch.h"
#include "engine/redis/checkup/setting_checks.h"
#include "engine/redis/keys.h"
#include "engine/redis/script.h"

namespace penstock::checkup {
namespace {

using engine::redis::TopologyKind;

constexpr size_t kPings = 2'000;
constexpr size_t kDecisions = 2'000;
constexpr Micros kMostLatency = Seconds(3);  // of each series
constexpr Micros kClockSpan = Seconds(2);    // between the first and the last look, for the drift

class Run {
 public:
  Run(const CheckupOptions& options, engine::Engine& engine, const Clock& clock)
      : options_(options),
        clock_(clock),
        began_(clock.Steady()),
        scratch_{engine, clock, options.timeout},
        loop_(clock) {}

  Report Do() {
    report_.engine = EngineText(options_.engine);
    Say(0, "looking for the servers");
    parties_ = FindParties(loop_, options_.engine);
    if (parties_.unreachable.empty()) {
      Look();
      Decide();
      Judge();
    }
    report_.unreachable = parties_.unreachable;
    report_.elapsed_ms = CeilMillis(clock_.Steady() - began_);
    return std::move(report_);
  }

 private:
  void Say(double share, std::string_view doing) const {
    if (options_.progress) options_.progress(share, doing);
  }

  // What can be read without deciding anything.
  void Look() {
    Say(0.05, "reading settings");
    deployment_.kind = options_.engine.topology;
    for (Party& party : parties_.servers) {
      if (!party.lost.empty()) continue;
      Client& client = *party.client;
      deployment_.servers.push_back(ReadFacts(client, party.replica));
      clocks_.push_back({client.where(), party.replica, {}});
      SampleClock(client, clocks_.back());
      std::string refused;
      const auto probes = ProbeAccess(client, deployment_.kind, prefix(), options_.acl_user, refused);
      access_.insert(access_.end(), probes.begin(), probes.end());
      if (!refused.empty()) access_refused_ = client.where() + ": " + refused;
      if (party.replica) continue;
      if (rights_.user.empty()) rights_ = ReadRights(client, options_.acl_user, prefix());
      CountBuilds(client);
      const auto scripts = ProbeScripts(client, engine::redis::Scripts());
      scripts_.insert(scripts_.end(), scripts.begin(), scripts.end());
    }
    Say(0.2, "looking at the keys");
    for (Party& party : parties_.servers) {
      if (party.lost.empty() && !party.replica)
        CountKeys(*party.client, prefix(), options_.max_keys, census_);
    }
  }

  void CountBuilds(Client& client) {
    std::string refused;
    for (const auto& [build, count] :
         ParseBuilds(ReadClients(client, refused), engine::redis::kConnectionNameStem))
      builds_[build] += count;
    if (!refused.empty()) builds_refused_ = client.where() + ": " + refused;
  }

  void Decide() {
    constexpr core::Algorithm kAlgorithms[] = {core::Algorithm::kTokenBucket, core::Algorithm::kFixedWindow,
                                               core::Algorithm::kSlidingWindow, core::Algorithm::kSlidingLog};
    double share = 0.3;
    for (const core::Algorithm algorithm : kAlgorithms) {
      Say(share, "ten clients at one bucket");
      share += 0.1;
      int64_t ttl = kNoTtl;
      races_.push_back(Race(scratch_, algorithm, [&](const core::Limit& limit, std::string_view key) {
        ttl = TtlOf(limit, key);
      }));
      if (ttl > kNoTtl && races_.back().admitted > 0)
        ttls_.push_back({races_.back().algorithm, ttl, races_.back().reset_after});
      if (races_.back().asked == 0) break;  // nothing is decided: the others would only wait as long
    }
    Say(0.7, "measuring latency");
    for (Party& party : parties_.servers) {
      if (party.lost.empty()) pings_.push_back(MeasurePing(*party.client, kPings, kMostLatency));
    }
    if (races_.back().asked > 0) decisions_ = MeasureDecisions(scratch_, kDecisions, kMostLatency);
    Say(0.9, "comparing clocks");
    while (clock_.Steady() - began_ < kClockSpan) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    size_t i = 0;
    for (Party& party : parties_.servers) {
      if (party.lost.empty()) SampleClock(*party.client, clocks_[i++]);
    }
  }

  // By the one server that has the bucket; -3 where none says it.
  int64_t TtlOf(const core::Limit& limit, std::string_view key) {
    std::string name;
    engine::redis::BucketKeys(prefix(), limit).Append(name, {&key, 1});
    int64_t ttl = kNoTtl;
    for (Party& party : parties_.servers) {
      if (!party.replica && party.lost.empty()) ttl = std::max(ttl, ReadTtl(*party.client, name));
    }
    return ttl;
  }

  void Judge() {
    std::vector<Finding>& out = report_.findings;
    out.push_back(CheckAtomicity(races_));
    out.push_back(CheckScripts(scripts_));
    out.push_back(CheckBuilds(builds_, engine::redis::ScriptsBuild(), builds_refused_));
    out.push_back(CheckClocks(clocks_, {clock_.Now().us - clock_.Steady().us}));
    out.push_back(census_.Check());
    out.push_back(CheckBucketTtls(ttls_));
    out.push_back(census_.CheckLayouts());
    out.push_back(Access());
    out.push_back(CheckExcess(rights_, deployment_.kind, prefix()));
    out.push_back(CheckVersion(deployment_));
    out.push_back(CheckEviction(deployment_));
    out.push_back(CheckMemory(deployment_));
    out.push_back(CheckPersistence(deployment_));
    out.push_back(CheckConnections(deployment_));
    out.push_back(CheckReplication(deployment_));
    if (deployment_.kind == TopologyKind::kSentinel) {
      out.push_back(CheckSentinels(parties_.sentinel_views, options_.engine.master_name));
    }
    if (deployment_.kind == TopologyKind::kCluster) {
      out.push_back(CheckSlots(parties_.cluster_views));
      out.push_back(CheckClusterReplicas(parties_.cluster_views));
      out.push_back(CheckFullCoverage(deployment_));
    }
    out.push_back(CheckLatency(pings_, decisions_, options_.timeout));
    if (options_.failover) Say(0.95, "replacing a master");
    out.push_back(CheckFailover(parties_, options_.engine, scratch_, options_.failover));
    for (Finding& finding : out) {
      if (finding.figure.empty()) finding.figure = "not known";
    }
  }

  Finding Access() const {
    const std::string user = rights_.user.empty() ? options_.engine.user : rights_.user;
    Finding finding = CheckAccess(user.empty() ? "default" : user, prefix(), access_);
    if (!access_refused_.empty()) {
      finding.Add(Status::kSkipped, "", access_refused_, "could not be asked",
                  "without --acl-user the rights are tried; with it verify's user needs +acl|dryrun");
    }
    return finding;
  }

  std::string_view prefix() const { return options_.engine.prefix; }

  const CheckupOptions& options_;
  const Clock& clock_;
  const SteadyTime began_;
  const ScratchParts scratch_;
  LoopThread loop_;
  Parties parties_;  // after the loop: its clients go first

  Report report_;
  Deployment deployment_;
  std::vector<ServerClock> clocks_;  // of the servers that answer, in order
  std::vector<ScriptProbe> scripts_;
  std::map<std::string, size_t> builds_;
  std::string builds_refused_;
  std::vector<ProbeResult> access_;
  std::string access_refused_;
  UserRights rights_;
  KeyCensus census_{options_.engine.prefix};
  std::vector<RaceResult> races_;
  std::vector<BucketTtl> ttls_;
  std::vector<ServerLatency> pings_;
  DecisionLatency decisions_;
};

}  // namespace

Report RunCheckup(const CheckupOptions& options, engine::Engine& engine, const Clock& clock) {
  return Run(options, engine, clock).Do();
}

Report MemoryReport(std::string_view url) {
  Report report;
  report.engine = url;
  Finding finding("engine");
  finding.figure = "memory";
  finding.Add(
      Status::kSkipped, "", "memory",
      "buckets live in the process that serves: there is no server, clock, right or setting to ask about; "
      "snapshots are its persistence");
  report.findings.push_back(std::move(finding));
  return report;
}

}  // namespace penstock::checkup
