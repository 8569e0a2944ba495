#include "http/problem.h"

#include "base/bytes.h"
#include "base/json_text.h"

namespace penstock::http {
namespace {

void AppendMember(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out += name;
  AppendJsonString(out, value);
  out += ',';
}

}  // namespace

void AppendProblem(std::string& out, const Problem& problem) {
  out += '{';
  AppendMember(out, "\"type\":", problem.type);
  AppendMember(out, "\"title\":", problem.title.empty() ? ReasonPhrase(problem.status) : problem.title);
  out += "\"status\":";
  AppendInt(out, problem.status);
  out += ',';
  AppendMember(out, "\"detail\":", problem.detail);
  AppendMember(out, "\"instance\":", problem.instance);
  if (!problem.violated_policies.empty()) {
    out += "\"violated-policies\":";
    char separator = '[';
    for (const std::string_view name : problem.violated_policies) {
      out += separator;
      AppendJsonString(out, name);
      separator = ',';
    }
    out += "],";
  }
  out += problem.members;
  if (problem.members.empty()) out.pop_back();  // the comma behind the last member
  out += '}';
}

void WriteProblem(std::string& out, const ReplyShape& shape, const Problem& problem) {
  ResponseWriter writer(out, shape, problem.status);
  writer.Header("Cache-Control", "no-store");
  AppendProblem(writer.BeginBody(kProblemType), problem);
  writer.EndBody();
}

void WriteMethodNotAllowed(std::string& out, const ReplyShape& shape, std::string_view allow) {
  ResponseWriter writer(out, shape, 405);
  writer.Header("Allow", allow);
  writer.Header("Cache-Control", "no-store");
  std::string detail = "this path takes ";
  detail += allow;
  AppendProblem(writer.BeginBody(kProblemType), {.status = 405, .detail = detail});
  writer.EndBody();
}

}  // namespace penstock::http
