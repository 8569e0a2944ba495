#include "engine/redis/checkup/access.h"

#include <algorithm>

namespace penstock::checkup {
namespace {

using engine::redis::TopologyKind;
using Where = Need::Where;

constexpr std::string_view kSha = "0000000000000000000000000000000000000000";

std::string KeyRule(std::string_view prefix) { return "~" + std::string(prefix) + "*"; }
std::string ChannelRule(std::string_view prefix) { return "&" + std::string(prefix) + "*"; }

// A refusal for want of a right: an error reply, or what ACL DRYRUN says in place of OK.
bool IsRefused(const Value& reply) {
  if (reply.is_error()) return reply.code() == "NOPERM" || reply.code() == "NOAUTH";
  return reply.text.find("has no permissions") != std::string::npos;
}

}  // namespace

std::span<const Need> Needs() {
  static constexpr Need kNeeds[] = {
      {"+hello", "to log in with one command", "HELLO", Where::kEverywhere, false},
      {"+client|setname", "to be seen in CLIENT LIST", "CLIENT SETNAME verify", Where::kEverywhere, false},
      {"+ping", "to see that a server that was away is back", "PING", Where::kEverywhere, false},
      {"+time", "to know the server's clock", "TIME"},
      {"+script|load", "to bring the scripts", "SCRIPT LOAD return"},
      {"+evalsha", "to decide", "EVALSHA SHA 1 KEY"},
      {"+get", "in the scripts: a bucket", "GET KEY"},
      {"+mget", "in the scripts: the buckets of several requests", "MGET KEY"},
      {"+set", "in the scripts: a bucket", "SET KEY 1 PX 1000"},
      {"+del", "in the scripts: a bucket that is reset, a request id that is taken back", "DEL KEY"},
      // The forms that change something are malformed on purpose, in a way that is looked at after the user's rights.
      {"+hget", "in the scripts: registered limits", "HGET KEY field"},
      {"+hmget", "in the scripts: registered limits", "HMGET KEY field"},
      {"+hset", "in the scripts: registered limits", "HSET KEY field value odd"},
      {"+zadd", "in the scripts: registered limits", "ZADD KEY none member"},
      {"+zcard", "in the scripts: registered limits", "ZCARD KEY"},
      {"+zcount", "in the scripts: permits", "ZCOUNT KEY 0 0"},
      {"+zmscore", "in the scripts: permits", "ZMSCORE KEY member"},
      {"+zscore", "in the scripts: permits", "ZSCORE KEY member"},
      {"+zrangebyscore", "in the scripts: registered limits, permits", "ZRANGEBYSCORE KEY 0 1"},
      {"+zrevrangebyscore", "in the scripts: permits", "ZREVRANGEBYSCORE KEY 1 0"},
      {"+zrem", "in the scripts: permits, whatever changes", "ZREM KEY none"},
      {"+zremrangebyscore", "in the scripts: permits that have expired", "ZREMRANGEBYSCORE KEY none none"},
      {"+pexpire", "in the scripts: permits", "PEXPIRE KEY none"},
      {"+publish", "in the scripts: to tell other nodes at once what changed", "PUBLISH CHANNEL verify",
       Where::kEverywhere, false},
      {"+subscribe", "to hear at once what other nodes changed", "SUBSCRIBE CHANNEL", Where::kEverywhere,
       false},
      {"+info", "in the scripts, for strict limits: to see a restart or a promotion", "INFO server",
       Where::kEverywhere, false},
      {"+config|get", "for strict limits: to know when a master that is cut off stops",
       "CONFIG GET min-replicas-*", Where::kReplicated, false},
      {"+wait", "for limits with replicas: to wait until they have a grant", "WAIT 0 1", Where::kEverywhere,
       false},
      {"+role", "to see that the server is the master", "ROLE", Where::kSentinel},
      {"+cluster|slots", "to know who serves a slot", "CLUSTER SLOTS", Where::kCluster},
      {"+asking", "to follow a slot that moves", "ASKING", Where::kCluster},
  };
  return kNeeds;
}

bool Applies(const Need& need, TopologyKind kind) {
  switch (need.where) {
    case Where::kEverywhere:
      return true;
    case Where::kSentinel:
      return kind == TopologyKind::kSentinel;
    case Where::kReplicated:
      return kind != TopologyKind::kSingle;
    case Where::kCluster:
      break;
  }
  return kind == TopologyKind::kCluster;
}

std::vector<std::string> Probe(const Need& need, std::string_view prefix, std::string_view scratch) {
  std::vector<std::string> words;
  std::string_view rest = need.probe;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "KEY" || word == "CHANNEL") {
      words.push_back(std::string(prefix) + std::string(scratch));
    } else {
      words.emplace_back(word == "SHA" ? kSha : word);
    }
  }
  return words;
}

std::string RecommendedRules(TopologyKind kind, std::string_view prefix) {
  std::string out = "resetkeys " + KeyRule(prefix) + " resetchannels " + ChannelRule(prefix) + " -@all";
  for (const Need& need : Needs()) {
    if (Applies(need, kind)) out += " " + std::string(need.rule);
  }
  return out;
}

std::string MissingRule(const ProbeResult& probe, std::string_view prefix) {
  const std::string_view text = probe.reply.text;
  if (!IsRefused(probe.reply)) return {};
  if (text.find("access") != std::string_view::npos) {
    return text.find("channel") != std::string_view::npos ? ChannelRule(prefix) : KeyRule(prefix);
  }
  return std::string(probe.need->rule);
}

Finding CheckAccess(std::string_view user, std::string_view prefix, const std::vector<ProbeResult>& probes) {
  Finding finding("acl");
  std::string missing;
  std::vector<std::string> rules;
  for (const ProbeResult& probe : probes) {
    const std::string rule = MissingRule(probe, prefix);
    if (rule.empty() || std::find(rules.begin(), rules.end(), rule) != rules.end()) continue;
    rules.push_back(rule);
    missing += (missing.empty() ? "" : " ") + rule;
  }
  const std::string whom = "user " + std::string(user);
  if (missing.empty()) {
    finding.figure = whom + " has what Penstock needs";
    finding.Add(Status::kOk, "", std::to_string(probes.size()) + " commands were tried",
                "no command will be refused");
    return finding;
  }
  finding.figure = whom + " lacks " + missing;
  const std::string remedy =
      "ACL SETUSER " + std::string(user) + " " + missing + " (on every server), then ACL SAVE";
  for (const ProbeResult& probe : probes) {
    const std::string rule = MissingRule(probe, prefix);
    if (rule.empty()) continue;
    const bool required = probe.need->required;
    finding.Add(required ? Status::kFailed : Status::kWarning, probe.where,
                "lacks " + rule + ", " + std::string(probe.need->why),
                required ? "decisions are unavailable for want of a right"
                         : "Penstock does without this right, later or slower",
                remedy);
  }
  return finding;
}

std::span<const Danger> Dangers() {
  static constexpr Danger kDangers[] = {
      {"FLUSHALL", "delete everything"},
      {"CONFIG SET maxmemory 0", "change settings"},
      {"ACL SETUSER penstock", "change users"},
      {"SHUTDOWN", "stop the server"},
      {"DEBUG SLEEP 0", "hold the server up"},
      {"REPLICAOF NO ONE", "change who is the master"},
      {"MODULE LIST", "load code"},
  };
  return kDangers;
}

Finding CheckExcess(const UserRights& rights, TopologyKind kind, std::string_view prefix) {
  Finding finding("acl-excess");
  const std::string whom = "user " + rights.user;
  if (!rights.refused.empty()) {
    finding.figure = "not known";
    finding.Add(
        Status::kSkipped, "", rights.refused,
        "could not be asked: the user may not look at its own rights, which is as it should be for a node",
        "to have it checked, add +acl|dryrun and +acl|getuser to the user that verify runs as");
    return finding;
  }
  const std::string rules = RecommendedRules(kind, prefix);
  const std::string remedy = "ACL SETUSER penstock on >PASSWORD " + rules;
  std::string may;
  for (const Danger* danger : rights.allowed) {
    may += (may.empty() ? "" : ", ") + std::string(danger->what);
    finding.Add(Status::kWarning, whom,
                "may " + std::string(danger->command.substr(0, danger->command.find(' '))) + ": " +
                    std::string(danger->what),
                "who has a node's password may do far more than decide", remedy);
  }
  if (rights.other_keys) {
    may += std::string(may.empty() ? "" : ", ") + "reach other keys";
    finding.Add(Status::kWarning, whom, "may reach keys outside \"" + std::string(prefix) + "\"",
                "who has a node's password may read and change what is not Penstock's", remedy);
  }
  if (rights.without_password) {
    finding.Add(Status::kWarning, whom, "needs no password",
                "who reaches the port may change every limit's use", remedy);
  }
  if (finding.status == Status::kOk) {
    finding.figure = whom + " may no more than it should";
    finding.Add(Status::kOk, "", finding.figure, "a node's password opens nothing but Penstock's own keys");
  } else {
    finding.figure =
        whom + (rights.without_password ? " without password" : "") + (may.empty() ? "" : " may " + may);
  }
  return finding;
}

}  // namespace penstock::checkup
