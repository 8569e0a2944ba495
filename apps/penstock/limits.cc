// `penstock limits`: which limits a server has in force, and their change at run time, over HTTP.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "commands.h"
#include "http_client.h"
#include "json_fields.h"
#include "policy/rate.h"
#include "request_text.h"

namespace penstock::app {
namespace {

namespace json = boost::json;

constexpr int kPreconditionFailed = 412;

// `-` is the standard input.
Result<std::string> ReadAll(const std::string& path) {
  if (path == "-") return std::string{std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file && !file.eof()) return Fail(ErrorKind::kUnavailable, "cannot read '" + path + "'");
  return text;
}

struct Question {
  HttpCall call;
  std::string target;
  std::string body;
};

Result<Question> QuestionOf(const LimitsFlags& flags) {
  Question question;
  question.target = "/v1/limits";
  if (flags.what != "list") question.target += "/" + flags.domain + "/" + flags.name;
  question.call.if_match = flags.if_match;
  question.call.method = "GET";
  if (flags.what == "delete") question.call.method = "DELETE";
  if (flags.what == "set") {
    question.call.method = "PUT";
    if (flags.definition.empty() == flags.file.empty())
      return Invalid("say what the limit is: a definition, e.g. '{rate: 100/min}', or --file");
    const Result<std::string> body =
        flags.file.empty() ? Result<std::string>(flags.definition) : ReadAll(flags.file);
    if (!body) return tl::unexpected(body.error());
    question.body = *body;
  }
  if (flags.what == "reset") {
    question.call.method = "DELETE";
    question.target += "/buckets";
    if (const Result<void> query = AppendQuery(question.target, flags.attributes); !query)
      return tl::unexpected(query.error());
  }
  return question;
}

std::string RateOf(const json::object& limit) {
  if (limit.if_contains("unlimited") != nullptr) return "unlimited";
  const json::value* const count = limit.if_contains("count");
  const json::value* const period = limit.if_contains("period_us");
  policy::Rate rate;
  if (count != nullptr && count->is_int64()) rate.count = count->as_int64();
  if (period != nullptr && period->is_int64()) rate.period = Micros{period->as_int64()};
  return policy::FormatRate(rate);
}

void PrintLimit(const json::object& limit) {
  std::printf("%s/%s: %s, %s, version %s, from %s", Text(limit, "domain").c_str(),
              Text(limit, "name").c_str(), Text(limit, "algorithm").c_str(), RateOf(limit).c_str(),
              Text(limit, "version").c_str(), Text(limit, "source").c_str());
  if (limit.if_contains("revision") != nullptr) std::printf(", revision %s", Text(limit, "revision").c_str());
  std::printf("\n");
  if (const json::value* const definition = limit.if_contains("definition"))
    std::printf("%s\n", json::serialize(*definition).c_str());
}

void PrintAnswer(const LimitsFlags& flags, const json::value& answer) {
  if (answer.is_array()) {
    for (const json::value& limit : answer.as_array()) {
      if (limit.is_object()) PrintLimit(limit.as_object());
    }
    return;
  }
  const json::object& object = answer.as_object();
  if (flags.what == "get") return PrintLimit(object);
  if (flags.what == "reset") {
    std::printf("reset: %s of %s left\n", Text(object, "remaining").c_str(), Text(object, "limit").c_str());
    return;
  }
  const bool gone = Text(object, "source") == "-";
  std::printf("%s/%s: version %s, %s\n", Text(object, "domain").c_str(), Text(object, "name").c_str(),
              Text(object, "version").c_str(),
              gone ? "no longer in force" : ("from " + Text(object, "source")).c_str());
}

}  // namespace

int RunLimits(const LimitsFlags& flags) {
  const Result<ServerUrl> server =
      ParseServerUrl(flags.server.empty() ? "http://127.0.0.1:8080" : flags.server);
  if (!server) return Complain(kExitUsage, server.error().message);
  Result<Question> question = QuestionOf(flags);
  if (!question) return Complain(kExitUsage, question.error().message);
  const std::string token = TokenFromEnvironment();
  question->call.target = question->target;
  question->call.token = token;
  question->call.body = question->body;
  const Result<HttpReply> reply = Call(*server, question->call);
  if (!reply) {
    const bool unavailable = reply.error().kind == ErrorKind::kUnavailable;
    return Complain(unavailable ? kExitUnavailable : kExitUsage, reply.error().message);
  }
  boost::system::error_code error;
  const json::value answer = json::parse(reply->body, error);
  if (error || (!answer.is_object() && !answer.is_array()))
    return Complain(kExitUnavailable, "the server's answer is no JSON");
  if (reply->status >= 300) {
    const int code = reply->status == kPreconditionFailed ? kExitDenied
                     : reply->status >= 500               ? kExitUnavailable
                                                          : kExitUsage;
    return Complain(code, answer.is_object() ? Text(answer.as_object(), "detail") : reply->body);
  }
  if (flags.json) {
    std::printf("%s\n", reply->body.c_str());
  } else {
    PrintAnswer(flags, answer);
  }
  return kExitFine;
}

}  // namespace penstock::app
