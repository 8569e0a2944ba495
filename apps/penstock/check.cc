// `penstock check`: asks a server over HTTP, or a fresh engine under a policy, and prints the answer.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <string>

#include "base/bytes.h"
#include "base/json_text.h"
#include "check_embedded.h"
#include "commands.h"
#include "http_client.h"
#include "json_fields.h"
#include "request_text.h"

namespace penstock::app {
namespace {

namespace json = boost::json;

// {"domain":"api","attributes":{"user":"42"},"cost":1}
Result<std::string> RequestBody(const CheckFlags& flags) {
  std::string body = "{\"domain\":";
  AppendJsonString(body, flags.domain);
  body += ",\"attributes\":";
  if (const Result<void> attributes = AppendAttributes(body, flags.attributes); !attributes)
    return tl::unexpected(attributes.error());
  body += ",\"cost\":";
  AppendInt(body, flags.cost);
  body += '}';
  return body;
}

void PrintLine(const std::string& head, const json::object& object) {
  std::printf("%s: %s of %s left", head.c_str(), Text(object, "remaining").c_str(),
              Text(object, "limit").c_str());
  const std::string retry = Text(object, "retry_after_ms");
  if (retry != "0" && retry != "-") std::printf(", again in %s ms", retry.c_str());
  std::printf(", unused in %s ms%s\n", Text(object, "reset_after_ms").c_str(),
              Flag(object, "shadow") ? " (shadow)" : "");
}

void PrintAnswer(const json::object& answer) {
  const std::string outcome = Text(answer, "outcome");
  const json::value* const limits = answer.if_contains("limits");
  if (limits == nullptr || !limits->is_array() || limits->as_array().empty()) {
    std::printf("%s: no limit applies\n", outcome.c_str());
    return;
  }
  PrintLine(outcome, answer);
  for (const json::value& limit : limits->as_array()) {
    if (!limit.is_object()) continue;
    PrintLine("  " + Text(limit.as_object(), "name") + " " + Text(limit.as_object(), "outcome"),
              limit.as_object());
  }
}

int ExitCodeOf(const json::object& answer) {
  if (Flag(answer, "allowed")) return kExitFine;
  return Text(answer, "outcome") == "unavailable" ? kExitUnavailable : kExitDenied;
}

Result<std::string> AskServer(const CheckFlags& flags, std::string_view body) {
  const Result<ServerUrl> server =
      ParseServerUrl(flags.server.empty() ? "http://127.0.0.1:8080" : flags.server);
  if (!server) return tl::unexpected(server.error());
  const std::string token = TokenFromEnvironment();
  Result<HttpReply> reply = Call(*server, {.target = "/v1/check", .token = token, .body = body});
  if (!reply) return tl::unexpected(reply.error());
  return std::move(reply->body);
}

}  // namespace

int RunCheck(const CheckFlags& flags) {
  const Result<std::string> body = RequestBody(flags);
  if (!body) return Complain(kExitUsage, body.error().message);
  const Result<std::string> reply = flags.policy.empty() ? AskServer(flags, *body) : CheckEmbedded(flags);
  if (!reply) {
    const bool unavailable = reply.error().kind == ErrorKind::kUnavailable;
    return Complain(unavailable ? kExitUnavailable : kExitUsage, reply.error().message);
  }
  boost::system::error_code error;
  const json::value answer = json::parse(*reply, error);
  if (error || !answer.is_object())
    return Complain(kExitUnavailable, "the server's answer is no JSON object");
  const json::object& object = answer.as_object();
  if (object.if_contains("outcome") == nullptr)
    return Complain(kExitUsage, Text(object, "detail"));  // a problem
  if (flags.json) {
    std::printf("%s\n", reply->c_str());
  } else {
    PrintAnswer(object);
  }
  return ExitCodeOf(object);
}

}  // namespace penstock::app
