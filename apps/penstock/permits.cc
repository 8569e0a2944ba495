// `penstock acquire`, `release`, `renew`, `holders`: permits of a running server, over HTTP.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <span>
#include <string>

#include "base/json_text.h"
#include "commands.h"
#include "json_fields.h"
#include "permit_client.h"
#include "request_text.h"

namespace penstock::app {
namespace {

namespace json = boost::json;

void Print(const std::string& line) { std::printf("%s\n", line.c_str()); }

// Over several permits: unavailable before a finding before fine.
int ExitCodeOf(core::PermitFate fate) {
  switch (fate) {
    case core::PermitFate::kReleased:
    case core::PermitFate::kRenewed:
      return kExitFine;
    case core::PermitFate::kExpired:
    case core::PermitFate::kUnknown:
      return kExitDenied;
    case core::PermitFate::kUnavailable:
      break;
  }
  return kExitUnavailable;
}

// A bucket, and whose permits in it; `verb` is what is done with them.
struct HoldersQuestion {
  std::string_view verb;
  const std::string& domain;
  const std::string& limit;
  std::span<const std::string> attributes;
  const std::string& key;
  const std::string& holder;
};

Result<std::string> AskHolders(const HoldersQuestion& question, const std::string& server) {
  const bool whole = !question.domain.empty() && !question.limit.empty();
  const bool any = !question.domain.empty() || !question.limit.empty() || !question.attributes.empty();
  if (question.key.empty() ? !whole : any)
    return Invalid("say whose holders: the domain, the limit and the bucket's attributes, or --key");
  const Result<PermitClient> client = PermitClient::Of(server);
  if (!client) return tl::unexpected(client.error());
  std::string target;
  if (question.key.empty()) {
    target = "/v1/limits/";
    AppendEscaped(target, question.domain);
    target += '/';
    AppendEscaped(target, question.limit);
    target += "/holders";
  } else {
    target = "/v1/holders";
    AppendQuery(target, "key", question.key);
  }
  if (const Result<void> query = AppendQuery(target, question.attributes); !query)
    return tl::unexpected(query.error());
  if (!question.holder.empty()) AppendQuery(target, "holder", question.holder);
  return client->Ask(question.verb, target, "");
}

json::object AsObject(const std::string& text) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  return value.is_object() ? value.as_object() : json::object{};
}

void PrintHolders(const json::object& answer) {
  std::string head = Text(answer, "in_use");
  // How many an ad hoc semaphore has, its callers say.
  if (Number(answer, "permits") > 0) head += " of " + Text(answer, "permits");
  head += " in use";
  if (Number(answer, "waiting") != 0) head += ", " + Text(answer, "waiting") + " waiting";
  Print(head);
  const json::value* const holders = answer.if_contains("holders");
  if (holders == nullptr || !holders->is_array()) return;
  for (const json::value& entry : holders->as_array()) {
    if (!entry.is_object()) continue;
    const json::object& holder = entry.as_object();
    std::string line = Text(holder, "id") + "  weight " + Text(holder, "weight") + ", expires in " +
                       Text(holder, "expires_in_ms") + " ms, fence " + Text(holder, "fence");
    if (const std::string name = Text(holder, "holder"); !name.empty() && name != "-")
      line += ", " + Printable(name);
    Print(line);
  }
  if (Flag(answer, "more")) Print("and more that are not listed");
}

int ReleaseHolder(const ReleaseFlags& flags) {
  const Result<std::string> reply =
      AskHolders({"DELETE", flags.domain, flags.limit, flags.what, flags.key, flags.holder}, flags.server);
  if (!reply) return ComplainOf(reply.error());
  const json::object answer = AsObject(*reply);
  if (flags.json) {
    Print(*reply);
  } else {
    Print(Text(answer, "released") + " released");
  }
  return Number(answer, "released") > 0 ? kExitFine : kExitDenied;
}

}  // namespace

int RunAcquire(const PermitFlags& flags) {
  const Result<std::string> body = AcquireBody(flags);
  if (!body) return ComplainOf(body.error());
  const Result<PermitClient> client = PermitClient::Of(flags.server);
  if (!client) return ComplainOf(client.error());
  const Result<PermitAnswer> answer = client->Acquire(*body, *FlagMillis("--wait", flags.wait));
  if (!answer) return ComplainOf(answer.error());
  if (flags.json) Print(answer->json);
  if (!answer->allowed) return SayRefusal(*answer);
  if (!SayWhatIsHeld(*answer)) return kExitUsage;
  if (!flags.json && !answer->id.empty()) Print(answer->id);
  return kExitFine;
}

int RunRelease(const ReleaseFlags& flags) {
  if (!flags.holder.empty()) return ReleaseHolder(flags);
  if (flags.what.empty()) return Complain(kExitUsage, "say which: the IDs of permits, or --holder");
  if (!flags.domain.empty() || !flags.limit.empty() || !flags.key.empty())
    return Complain(kExitUsage, "the bucket goes with --holder; an ID says by itself where it is held");
  const Result<PermitClient> client = PermitClient::Of(flags.server);
  if (!client) return ComplainOf(client.error());
  int code = kExitFine;
  std::string all = "[";
  for (const std::string& id : flags.what) {
    const Result<PermitFateAnswer> answer = client->Release(id, PermitClient::kPatienceMs);
    if (!answer) return ComplainOf(answer.error());
    const std::string result(core::ToString(answer->fate));
    std::string line;
    if (flags.what.size() > 1) line.append(id).append(": ");
    if (!flags.json) Print(line.append(result));
    if (all.size() > 1) all += ',';
    all += "{\"id\":";
    AppendJsonString(all, id);
    all.append(",\"result\":\"").append(result).append("\"}");
    code = std::max(code, ExitCodeOf(answer->fate));
  }
  if (flags.json) Print(all + "]");
  return code;
}

int RunRenew(const RenewFlags& flags) {
  const Result<int64_t> lease_ms = FlagMillis("--lease", flags.lease);
  if (!lease_ms) return ComplainOf(lease_ms.error());
  const Result<PermitClient> client = PermitClient::Of(flags.server);
  if (!client) return ComplainOf(client.error());
  const Result<PermitFateAnswer> answer = client->Renew(flags.id, *lease_ms, PermitClient::kPatienceMs);
  if (!answer) return ComplainOf(answer.error());
  const std::string result(core::ToString(answer->fate));
  const bool renewed = answer->fate == core::PermitFate::kRenewed;
  if (flags.json) {
    Print("{\"result\":\"" + result + "\"" +
          (renewed ? ",\"expires_in_ms\":" + std::to_string(answer->expires_in_ms) : "") + "}");
  } else {
    Print(renewed ? "renewed, expires in " + std::to_string(answer->expires_in_ms) + " ms" : result);
  }
  return ExitCodeOf(answer->fate);
}

int RunHolders(const HoldersFlags& flags) {
  const Result<std::string> reply =
      AskHolders({"GET", flags.domain, flags.limit, flags.attributes, flags.key, flags.holder}, flags.server);
  if (!reply) return ComplainOf(reply.error());
  if (flags.json) {
    Print(*reply);
  } else {
    PrintHolders(AsObject(*reply));
  }
  return kExitFine;
}

int SayRefusal(const PermitAnswer& answer) {
  std::string words = answer.outcome;
  if (answer.outcome == "unavailable") {
    if (!answer.reason.empty()) words += ": " + answer.reason;
    return Complain(kExitUnavailable, words);
  }
  if (answer.limit != "-") words += ": " + answer.remaining + " of " + answer.limit + " left";
  if (answer.retry_after_ms != "-" && answer.retry_after_ms != "0")
    words += ", again in " + answer.retry_after_ms + " ms";
  return Complain(kExitDenied, words);
}

bool SayWhatIsHeld(const PermitAnswer& answer) {
  std::string words;
  if (!answer.any_limit) {
    words = "no limit applies to these attributes, so there is no permit to hold";
  } else if (answer.degraded) {
    words = "the engine cannot be asked" + (answer.reason.empty() ? "" : " (" + answer.reason + ")") +
            (answer.id.empty() ? ": allowed without a permit" : ": a permit of this node's share alone");
  } else if (answer.id.empty()) {
    words = "allowed, but none of the limits that apply has permits to hold";
  }
  if (!words.empty()) std::fprintf(stderr, "penstock: %s\n", words.c_str());
  return answer.any_limit;
}

}  // namespace penstock::app
