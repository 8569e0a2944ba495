#include "engine/redis/checkup/failover_check.h"

#include <optional>

namespace penstock::checkup {
namespace {

using engine::redis::Options;
using engine::redis::TopologyKind;

constexpr Micros kPatience = Seconds(60);
constexpr Micros kAfterwards = Seconds(2);  // watched on, when the role has changed
constexpr Micros kLong = Seconds(5);

// Who is to do it, and how it is seen that it was done.
struct Order {
  Client* to = nullptr;
  Command command;
  Client* asked = nullptr;
  Command question;
  std::string before;  // the question's answer until then
  std::string what;
};

std::string Answer(Client& client, const Command& question) {
  const Result<Value> reply = client.Ask(question);
  if (!reply || reply->is_error()) return {};
  return reply->At(0).text + (question.front() == "ROLE" ? "" : ":" + reply->At(1).text);
}

std::optional<Order> OrderFor(Parties& parties, const Options& options) {
  Order order;
  if (options.topology == TopologyKind::kSentinel) {
    for (Party& sentinel : parties.sentinels) {
      if (!sentinel.lost.empty()) continue;
      order.to = order.asked = sentinel.client.get();
      order.command = {"SENTINEL", "FAILOVER", options.master_name};
      order.question = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options.master_name};
      order.what = "SENTINEL FAILOVER at " + sentinel.client->where();
      order.before = Answer(*order.asked, order.question);
      return order;
    }
    return std::nullopt;
  }
  for (Party& server : parties.servers) {
    if (!server.replica || !server.lost.empty()) continue;
    order.to = order.asked = server.client.get();
    order.command = {"CLUSTER", "FAILOVER"};
    order.question = {"ROLE"};
    order.what = "CLUSTER FAILOVER at " + server.client->where();
    order.before = Answer(*order.asked, order.question);
    return order;
  }
  return std::nullopt;
}

std::string Ms(Micros time) { return std::to_string(CeilMillis(time)) + " ms"; }

Finding Carry(Order& order, const ScratchParts& scratch) {
  Finding finding("failover");
  std::string refused;
  bool begun = false;
  SteadyTime replaced{};
  const auto done = [&] {
    const SteadyTime now = scratch.clock.Steady();
    if (!begun) {
      begun = true;
      const Result<Value> reply = order.to->Ask(order.command);
      if (!reply || reply->is_error()) refused = reply ? reply->text : reply.error().message;
    }
    if (!refused.empty()) return true;
    if (replaced.us != 0) return now - replaced > kAfterwards;
    const std::string answer = Answer(*order.asked, order.question);
    if (!answer.empty() && answer != order.before) replaced = now;
    return false;
  };
  const Outage outage = WatchOutage(scratch, done, kPatience);
  if (!refused.empty()) {
    finding.figure = "refused";
    finding.Add(
        Status::kFailed, "", order.what + ": " + refused, "a failover by order is not possible now",
        "see sentinel or cluster-replicas; by right of the user: +sentinel|failover, +cluster|failover");
    return finding;
  }
  finding.figure = "decisions unavailable for " + Ms(outage.longest) + ", " +
                   std::to_string(outage.unavailable) + " of " +
                   std::to_string(outage.decided + outage.unavailable);
  const std::string detail = order.what + ", " + finding.figure;
  if (replaced.us == 0) {
    finding.Add(Status::kFailed, "", order.what + " did not change the master within " + Ms(kPatience),
                "the failover did not happen", "look into the logs of sentinels or nodes");
  } else if (!outage.ended) {
    finding.Add(Status::kFailed, "", detail, "after the failover decisions are still unavailable",
                "see acl: the new master's users may differ; a node's log names the cause");
  } else if (outage.longest > kLong) {
    finding.Add(Status::kWarning, "", detail, "a failover takes long; limits go by on_failure meanwhile",
                "lower down-after-milliseconds or cluster-node-timeout, and look into the replica's state");
  } else {
    finding.Add(Status::kOk, "", detail, "the replica took over and decisions went on by themselves");
  }
  return finding;
}

}  // namespace

Finding CheckFailover(Parties& parties, const Options& options, const ScratchParts& scratch, bool wanted) {
  Finding finding("failover");
  if (options.topology == TopologyKind::kSingle) {
    finding.figure = "one server";
    finding.Add(Status::kSkipped, "", "one server", "does not apply: nothing takes this server's place");
    return finding;
  }
  if (!wanted) {
    finding.figure = "not asked for";
    finding.Add(Status::kSkipped, "", "not asked for", "a real failover is done only with --failover",
                "run verify --failover at a quiet hour");
    return finding;
  }
  std::optional<Order> order = OrderFor(parties, options);
  if (!order) {
    finding.figure = "nobody to order it from";
    finding.Add(Status::kFailed, "", "no sentinel and no replica answers", "a failover is not possible now",
                "see sentinel or cluster-replicas");
    return finding;
  }
  return Carry(*order, scratch);
}

}  // namespace penstock::checkup
