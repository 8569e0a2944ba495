#include "engine/redis/checkup/setting_checks.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/bytes.h"

namespace penstock::checkup {
namespace {

constexpr int64_t kOldestMajor = 5;  // TIME before a write in a script
constexpr int64_t kTestedMajor = 7;
constexpr int64_t kNearMemory = 75;  // percent of maxmemory
constexpr int64_t kFullMemory = 90;
constexpr int64_t kNearClients = 80;  // percent of maxclients

std::string MegaBytes(int64_t bytes) { return std::to_string(bytes / (1024 * 1024)) + " MB"; }

void Skip(Finding& finding, const ServerFacts& server) {
  finding.Add(Status::kSkipped, server.where, "not known, " + WhyUnknown(server),
              "could not be asked: the user may not read this server's settings",
              "add +config|get and +info to the user that verify runs as");
}

}  // namespace

Finding CheckVersion(const Deployment& deployment) {
  Finding finding("version");
  for (const ServerFacts& server : deployment.servers) {
    std::string_view name = "Redis";
    std::string_view version = Text(server.info, "redis_version");
    if (const std::string_view valkey = Text(server.info, "valkey_version"); !valkey.empty()) {
      name = "Valkey";
      version = valkey;
    }
    if (version.empty()) {
      finding.Add(Status::kSkipped, server.where, "not known, INFO: " + server.info_refused,
                  "could not be asked: the user may not read INFO",
                  "add +info to the user that verify runs as");
      continue;
    }
    const std::string text = std::string(name) + " " + std::string(version);
    int64_t major = 0;
    std::from_chars(version.data(), version.data() + version.size(), major);
    if (major < kOldestMajor) {
      finding.Add(
          Status::kFailed, server.where, text,
          "this server cannot run the scripts: before 5.0 a script may not write after it asked the time",
          "run Redis 7 or Valkey 8");
    } else if (major < kTestedMajor) {
      finding.Add(
          Status::kWarning, server.where, text,
          "Penstock is not tested on this version; min-replicas-to-write is not enforced in its scripts",
          "run Redis 7 or Valkey 8");
    } else {
      finding.Add(Status::kOk, server.where, text, "Penstock's scripts run on this version");
    }
    if (finding.figure.empty()) finding.figure = text;
    if (finding.figure != text && finding.figure.find("several") == std::string::npos) {
      finding.figure += " and others, several versions";
    }
  }
  return finding;
}

Finding CheckEviction(const Deployment& deployment) {
  Finding finding("eviction");
  for (const ServerFacts& server : deployment.servers) {
    const std::string* const policy = Setting(server, "maxmemory-policy", "maxmemory_policy");
    if (policy == nullptr) {
      Skip(finding, server);
      continue;
    }
    const std::string* const most = Setting(server, "maxmemory", "maxmemory");
    const std::string what = "maxmemory-policy " + *policy;
    if (finding.figure.empty() || *policy != "noeviction") finding.figure = what;
    if (*policy == "noeviction") {
      finding.Add(Status::kOk, server.where, what, "a full server refuses to write; it drops no bucket");
    } else if (most == nullptr || *most != "0") {
      finding.Add(Status::kFailed, server.where, what,
                  "a full server drops buckets that are in use (volatile-… too, all of them have a TTL), and "
                  "what was "
                  "used is forgotten",
                  "CONFIG SET maxmemory-policy noeviction, and the same in the configuration file");
    } else {
      finding.Add(Status::kWarning, server.where, what + ", without effect while maxmemory is 0",
                  "once maxmemory is set, a full server drops buckets that are in use",
                  "CONFIG SET maxmemory-policy noeviction, and the same in the configuration file");
    }
  }
  return finding;
}

Finding CheckMemory(const Deployment& deployment) {
  Finding finding("memory");
  int64_t fullest = -1;
  for (const ServerFacts& server : deployment.servers) {
    const auto bound = NumberSetting(server, "maxmemory", "maxmemory");
    const auto used = Number(server.info, "used_memory");
    if (!bound) {
      Skip(finding, server);
      continue;
    }
    if (*bound == 0) {
      const std::string what = "maxmemory 0" + (used ? ", " + MegaBytes(*used) + " in use" : std::string());
      if (finding.figure.empty()) finding.figure = what;
      finding.Add(
          Status::kWarning, server.where, what,
          "nothing bounds the server's memory: many keys end in the system killing it, and limits are lost",
          "set maxmemory to what the machine can spare");
      continue;
    }
    if (!used) {
      finding.figure = "maxmemory " + MegaBytes(*bound);
      finding.Add(
          Status::kSkipped, server.where, finding.figure + ", use not known, INFO: " + server.info_refused,
          "could not be asked: the user may not read INFO", "add +info to the user that verify runs as");
      continue;
    }
    const int64_t percent =
        static_cast<int64_t>(static_cast<double>(*used) * 100 / static_cast<double>(*bound));
    const std::string what = std::to_string(percent) + " % of maxmemory " + MegaBytes(*bound) + " in use";
    if (percent > fullest) finding.figure = what;
    fullest = std::max(fullest, percent);
    if (percent >= kFullMemory) {
      finding.Add(Status::kFailed, server.where, what,
                  "the server is about to refuse writes (OOM): decisions would be unavailable",
                  "raise maxmemory, or find what fills it");
    } else if (percent >= kNearMemory) {
      finding.Add(Status::kWarning, server.where, what, "little room is left before writes are refused (OOM)",
                  "raise maxmemory, or find what fills it");
    } else {
      finding.Add(Status::kOk, server.where, what, "the server has room");
    }
  }
  return finding;
}

namespace {

// Of `save 3600 1 300 100`, the longest that a change may wait; 0 where nothing is saved.
int64_t LongestSave(std::string_view save) {
  int64_t longest = 0;
  for (bool seconds = true; !save.empty(); seconds = !seconds) {
    const size_t end = std::min(save.find(' '), save.size());
    if (seconds) longest = std::max(longest, ParseInt(save.substr(0, end)).value_or(0));
    save.remove_prefix(std::min(end + 1, save.size()));
  }
  return longest;
}

// Whether what is configured works. False: it was added.
bool AddSaveTrouble(Finding& finding, const ServerFacts& server) {
  for (const std::string_view name :
       {"rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"}) {
    const std::string_view status = Text(server.info, name);
    if (status.empty() || status == "ok") continue;
    finding.figure = std::string(name) + " " + std::string(status);
    finding.Add(
        Status::kFailed, server.where, finding.figure,
        "the server cannot write its data to disk; it may refuse every write (MISCONF), and a restart loses "
        "limits",
        "make room on the disk and look into the server's log");
    return false;
  }
  return true;
}

void AddPersistence(Finding& finding, const ServerFacts& server, bool appendonly, const std::string* save) {
  const std::string* const fsync = Setting(server, "appendfsync");
  if (appendonly) {
    const std::string mode = fsync == nullptr ? std::string() : " " + *fsync;
    const std::string what = "appendonly yes" + mode;
    if (finding.figure.empty()) finding.figure = what;
    if (mode == " no") {
      finding.figure = what;
      finding.Add(Status::kWarning, server.where, what,
                  "a machine that loses power forgets what was used in about the last 30 s",
                  "CONFIG SET appendfsync everysec");
    } else {
      finding.Add(Status::kOk, server.where, what,
                  "a restart keeps what was used, but for about the last second");
    }
    return;
  }
  if (save == nullptr) return Skip(finding, server);
  const int64_t longest = LongestSave(*save);
  if (longest == 0) {
    finding.figure = "save \"\", appendonly no";
    finding.Add(Status::kFailed, server.where, finding.figure,
                "a restart empties the server: every bucket begins fresh, and limits set at run time are "
                "gone until a "
                "node registers them again",
                "CONFIG SET appendonly yes, and the same in the configuration file");
    return;
  }
  const std::string what = "save \"" + *save + "\", appendonly no";
  if (finding.status < Status::kWarning) finding.figure = what;
  finding.Add(
      Status::kWarning, server.where, what,
      "a crash forgets what was used since the last save, which may be " + std::to_string(longest) + " s ago",
      "CONFIG SET appendonly yes, and the same in the configuration file");
}

}  // namespace

Finding CheckPersistence(const Deployment& deployment) {
  Finding finding("persistence");
  for (const ServerFacts& server : deployment.servers) {
    if (!AddSaveTrouble(finding, server)) continue;
    const std::string* const append = Setting(server, "appendonly", "aof_enabled");
    if (append == nullptr) {
      Skip(finding, server);
      continue;
    }
    AddPersistence(finding, server, *append == "yes" || *append == "1", Setting(server, "save"));
  }
  return finding;
}

Finding CheckConnections(const Deployment& deployment) {
  Finding finding("connections");
  for (const ServerFacts& server : deployment.servers) {
    const auto bound = NumberSetting(server, "maxclients", "maxclients");
    const auto now = Number(server.info, "connected_clients");
    if (!bound || !now || *bound <= 0) {
      Skip(finding, server);
      continue;
    }
    const std::string what = std::to_string(*now) + " of maxclients " + std::to_string(*bound);
    if (finding.figure.empty()) finding.figure = what;
    if (*now * 100 >= *bound * kNearClients) {
      finding.figure = what;
      finding.Add(Status::kWarning, server.where, what,
                  "soon a node that connects is refused: it keeps a connection an event loop and server",
                  "raise maxclients, or find who holds the connections");
    } else {
      finding.Add(Status::kOk, server.where, what, "there is room for more nodes");
    }
  }
  return finding;
}

namespace {

void AddMaster(Finding& finding, const ServerFacts& server, bool has_failover) {
  const std::string* const least = Setting(server, "min-replicas-to-write");
  const auto replicas = Number(server.info, "connected_slaves");
  if (least == nullptr) {
    // INFO has this field only where the setting is in force.
    if (Number(server.info, "min_slaves_good_slaves")) {
      finding.Add(Status::kOk, server.where, "min-replicas-to-write is set",
                  "a master without replicas at hand stops granting");
    } else {
      Skip(finding, server);
    }
    return;
  }
  const std::string what = "min-replicas-to-write " + *least;
  if (finding.figure.empty()) finding.figure = what;
  if (*least == "0" && has_failover) {
    finding.figure = what;
    finding.Add(
        Status::kWarning, server.where, what,
        "a master that is cut off goes on granting until it learns of its successor, and what it granted is "
        "lost: limits may be exceeded by that much, and strict limits of permits are refused here",
        "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10 where each master has two replicas");
    return;
  }
  if (const auto wanted = ParseInt(*least); wanted && replicas && *replicas < *wanted) {
    finding.figure = what + ", " + std::to_string(*replicas) + " connected";
    finding.Add(Status::kFailed, server.where, finding.figure,
                "the master refuses every write (NOREPLICAS): decisions are unavailable",
                "bring the replicas back");
    return;
  }
  const std::string* const lag = Setting(server, "min-replicas-max-lag");
  std::string meaning = "nothing takes this server's place";
  if (has_failover) {
    meaning = "a master without replicas at hand stops granting";
    if (lag != nullptr) meaning += " within " + *lag + " s: strict limits of permits need a longer lease";
  }
  finding.Add(Status::kOk, server.where, what, meaning);
}

void AddReplica(Finding& finding, const ServerFacts& server) {
  const std::string* const read_only = Setting(server, "replica-read-only", "slave_read_only");
  if (read_only != nullptr && (*read_only == "no" || *read_only == "0")) {
    finding.figure = "replica-read-only no";
    finding.Add(Status::kFailed, server.where, finding.figure,
                "a node that reaches this replica is granted from buckets that nobody else counts",
                "CONFIG SET replica-read-only yes, and the same in the configuration file");
    return;
  }
  if (Text(server.info, "master_link_status") == "down") {
    finding.figure = "a replica has lost its master";
    finding.Add(Status::kFailed, server.where, "master_link_status down",
                "this replica falls behind: if it took over, what was used since would be forgotten",
                "look into this replica's log");
    return;
  }
  if (read_only == nullptr) return Skip(finding, server);
  finding.Add(Status::kOk, server.where, "replica, follows its master", "replicas follow their masters");
}

}  // namespace

Finding CheckReplication(const Deployment& deployment) {
  Finding finding("replication");
  if (deployment.kind == engine::redis::TopologyKind::kSingle && !deployment.servers.empty() &&
      deployment.servers.front().replica) {
    finding.figure = "the URL names a replica";
    finding.Add(Status::kFailed, deployment.servers.front().where, finding.figure,
                "a replica refuses every write (READONLY): decisions are unavailable",
                "name its master " + std::string(Text(deployment.servers.front().info, "master_host")) + ":" +
                    std::string(Text(deployment.servers.front().info, "master_port")));
    return finding;
  }
  if (!deployment.HasFailover() && !deployment.HasReplicas()) {
    finding.figure = "no replica";
    finding.Add(Status::kSkipped, "", "no replica", "does not apply: one server, whose end is an outage");
    return finding;
  }
  for (const ServerFacts& server : deployment.servers) {
    if (server.replica) {
      AddReplica(finding, server);
    } else {
      AddMaster(finding, server, deployment.HasFailover());
    }
  }
  return finding;
}

}  // namespace penstock::checkup
