#include "engine/redis/checkup/questions.h"

#include <algorithm>

#include "base/random.h"

namespace penstock::checkup {
namespace {

constexpr size_t kClockSamples = 8;
constexpr size_t kScanStep = 500;

// The reply, or why there is none: an error reply is the latter too.
const Value* Good(const Result<Value>& reply, std::string& why) {
  if (!reply) {
    why = reply.error().message;
    return nullptr;
  }
  if (reply->is_error()) {
    why = reply->text;
    return nullptr;
  }
  return &*reply;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Command DryRun(const std::string& user, const std::vector<std::string>& words) {
  Command command = {"ACL", "DRYRUN", user};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// TIME's reply: seconds and microseconds.
std::optional<EngineTime> TimeOf(const Value& value) {
  const auto seconds = value.At(0).Number();
  const auto micros = value.At(1).Number();
  constexpr int64_t kMostSeconds = 1'000'000'000'000;
  if (!seconds || !micros || *seconds < 0 || *seconds > kMostSeconds) return std::nullopt;
  return EngineTime{*seconds * 1'000'000 + *micros};
}

}  // namespace

ServerFacts ReadFacts(Client& client, bool replica) {
  ServerFacts facts;
  facts.where = client.where();
  facts.replica = replica;
  const Result<Value> info = client.Ask(Command{"INFO"});
  if (const Value* const value = Good(info, facts.info_refused)) facts.info = ParseInfo(value->text);
  if (Text(facts.info, "role") == "slave") facts.replica = true;
  std::vector<Command> commands;
  for (const std::string_view setting : Settings())
    commands.push_back({"CONFIG", "GET", std::string(setting)});
  const Result<std::vector<Value>> replies = client.Ask(commands);
  if (!replies) {
    facts.config_refused = replies.error().message;
    return facts;
  }
  for (const Value& reply : *replies) {
    if (reply.is_error()) facts.config_refused = reply.text;
    facts.config.merge(ParsePairs(reply));
  }
  return facts;
}

void SampleClock(Client& client, ServerClock& clock) {
  const auto heard = client.Repeat({"TIME"}, kClockSamples, Seconds(1));
  if (!heard) return;
  for (const Client::Timed& timed : *heard) {
    if (const auto time = TimeOf(timed.value)) clock.samples.push_back({*time, timed.sent, timed.received});
  }
}

std::vector<ScriptProbe> ProbeScripts(Client& client, std::span<const engine::redis::Script> scripts) {
  std::vector<ScriptProbe> probes;
  for (const engine::redis::Script& script : scripts) {
    ScriptProbe probe;
    probe.where = client.where();
    probe.name = script.name;
    probe.sha1 = script.sha1;
    const Result<std::vector<Value>> replies =
        client.Ask(std::vector<Command>{{"SCRIPT", "EXISTS", script.sha1},
                                        {"SCRIPT", "LOAD", std::string(script.text)},
                                        {"EVALSHA", script.sha1, "0"}});
    if (!replies) {
      probe.loaded = {resp::ReplyType::kError, 0, replies.error().message, {}};
    } else {
      probe.loaded_before = (*replies)[0].At(0).integer == 1;
      probe.loaded = (*replies)[1];
      probe.called = (*replies)[2];
    }
    probes.push_back(std::move(probe));
  }
  return probes;
}

std::vector<ProbeResult> ProbeAccess(Client& client, engine::redis::TopologyKind kind,
                                     std::string_view prefix, const std::string& user, std::string& refused) {
  unsigned char noise[8];
  SecureRandomBytes(noise);
  std::string scratch = "{verify}";
  for (const unsigned char byte : noise) scratch += std::to_string(byte);
  std::vector<ProbeResult> out;
  for (const Need& need : Needs()) {
    if (!Applies(need, kind)) continue;
    const std::vector<std::string> words = Probe(need, prefix, scratch);
    const Result<Value> reply = client.Ask(user.empty() ? words : DryRun(user, words));
    if (!reply) {
      refused = reply.error().message;
      return {};
    }
    if (!user.empty() && reply->is_error()) {
      refused = "ACL DRYRUN: " + reply->text;
      return {};
    }
    // A connection that subscribed answers little else.
    if (user.empty() && words.front() == "SUBSCRIBE" && !reply->is_error()) client.HangUp();
    out.push_back({&need, client.where(), *reply});
  }
  return out;
}

UserRights ReadRights(Client& client, const std::string& user, std::string_view prefix) {
  UserRights rights;
  rights.user = user;
  if (user.empty()) {
    const Result<Value> whoami = client.Ask(Command{"ACL", "WHOAMI"});
    const Value* const name = Good(whoami, rights.refused);
    if (name == nullptr) return rights;
    rights.user = name->text;
  }
  const Result<Value> reply = client.Ask(Command{"ACL", "GETUSER", rights.user});
  const Value* const pairs = Good(reply, rights.refused);
  if (pairs == nullptr) return rights;
  if (pairs->is_null()) rights.refused = "there is no user " + rights.user;
  for (size_t i = 0; i + 1 < pairs->items.size(); i += 2) {
    if (pairs->items[i].text != "flags") continue;
    for (const Value& flag : pairs->items[i + 1].items) rights.without_password |= flag.text == "nopass";
  }
  const auto may = [&](const std::vector<std::string>& words) {
    const Result<Value> answer = client.Ask(DryRun(rights.user, words));
    std::string why;
    const Value* const value = Good(answer, why);
    if (value == nullptr) rights.refused = "ACL DRYRUN: " + why;
    return value != nullptr && value->text == "OK";
  };
  for (const Danger& danger : Dangers()) {
    if (may(Words(danger.command))) rights.allowed.push_back(&danger);
  }
  // A name that no prefix begins.
  if (!prefix.empty())
    rights.other_keys = may({"GET", std::string(prefix.front() == '_' ? "-" : "_") + "other"});
  return rights;
}

void CountKeys(Client& client, std::string_view prefix, uint64_t most, KeyCensus& census) {
  std::string cursor = "0";
  uint64_t seen = 0;
  do {
    const Result<Value> page = client.Ask(
        Command{"SCAN", cursor, "MATCH", std::string(prefix) + "*", "COUNT", std::to_string(kScanStep)});
    std::string why;
    const Value* const value = Good(page, why);
    if (value == nullptr) return census.Refused(client.where(), "SCAN: " + why);
    cursor = value->At(0).text;
    const std::vector<Value>& keys = value->At(1).items;
    std::vector<Command> commands;
    for (const Value& key : keys) {
      commands.push_back({"PTTL", key.text});
      commands.push_back({"GETRANGE", key.text, "0", "0"});
    }
    const Result<std::vector<Value>> answers = client.Ask(commands);
    if (!answers) return census.Refused(client.where(), "PTTL: " + answers.error().message);
    for (size_t i = 0; i < keys.size(); ++i) {
      const Value& ttl = (*answers)[2 * i];
      if (ttl.is_error()) return census.Refused(client.where(), "PTTL: " + ttl.text);
      census.Note(keys[i].text, ttl.integer, (*answers)[2 * i + 1]);
    }
    seen += keys.size();
    if (seen >= most && cursor != "0") return census.Cut();
  } while (cursor != "0" && !cursor.empty());
}

ServerLatency MeasurePing(Client& client, size_t times, Micros most) {
  ServerLatency out{client.where(), {}};
  const auto heard = client.Repeat({"PING"}, times, most);
  if (!heard) return out;
  std::vector<int64_t> took;
  for (const Client::Timed& timed : *heard) took.push_back((timed.received - timed.sent).count);
  out.ping = PercentilesOf(took);
  return out;
}

int64_t ReadTtl(Client& client, const std::string& key) {
  const Result<Value> reply = client.Ask(Command{"PTTL", key});
  return reply && reply->is_integer() ? reply->integer : kNoTtl;
}

std::string ReadClients(Client& client, std::string& refused) {
  const Result<Value> reply = client.Ask(Command{"CLIENT", "LIST"});
  const Value* const value = Good(reply, refused);
  return value == nullptr ? std::string() : value->text;
}

}  // namespace penstock::checkup
