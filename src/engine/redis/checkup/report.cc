#include "engine/redis/checkup/report.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/json_text.h"

namespace penstock::checkup {
namespace {

constexpr size_t kWidth = 100;

// Appends the text broken at spaces, every line after the first behind `indent` spaces. The cursor stands at `column`.
void Wrap(std::string& out, std::string_view text, size_t column, size_t indent) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

void Paragraph(std::string& out, std::string_view head, std::string_view text) {
  constexpr size_t kIndent = 9;
  if (text.empty()) return;
  out.append(kIndent, ' ');
  Wrap(out, std::string(head) + std::string(text), kIndent, kIndent);
}

void FindingText(std::string& out, const Finding& finding) {
  constexpr size_t kStatusColumn = 9;
  constexpr size_t kNameColumn = 27;
  std::string line(ToString(finding.status));
  line.append(kStatusColumn - line.size(), ' ');
  line += finding.name;
  line.append(line.size() < kNameColumn ? kNameColumn - line.size() : 1, ' ');
  out += line;
  Wrap(out, finding.figure, line.size(), line.size());
  if (finding.status == Status::kOk) return;
  Paragraph(out, "", finding.meaning);
  Paragraph(out, "-> ", finding.remedy);
  for (const std::string& detail : finding.details) Paragraph(out, "- ", detail);
}

void FindingJson(std::string& out, const Finding& finding) {
  out += '{';
  AppendJsonField(out, "name", finding.name);
  AppendJsonField(out, "status", ToString(finding.status));
  AppendJsonField(out, "figure", finding.figure);
  AppendJsonField(out, "meaning", finding.meaning);
  AppendJsonField(out, "remedy", finding.remedy);
  out += ",\"details\":[";
  for (size_t i = 0; i < finding.details.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(out, finding.details[i]);
  }
  out += "]}";
}

}  // namespace

std::string_view ToString(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kSkipped:
      return "skipped";
    case Status::kWarning:
      return "warning";
    case Status::kFailed:
      break;
  }
  return "failed";
}

void Finding::Add(Status heard, std::string_view where, std::string_view what, std::string_view why,
                  std::string_view cure) {
  std::string detail;
  if (!where.empty()) detail = std::string(where) + ": ";
  detail += what;
  details.push_back(std::move(detail));
  if (heard > status || (meaning.empty() && heard == status)) {
    status = heard;
    meaning = why;
    remedy = cure;
  }
}

size_t Report::Count(Status status) const {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [status](const Finding& finding) { return finding.status == status; }));
}

std::string ReportText(const Report& report) {
  std::string out = report.engine + "\n";
  if (!report.unreachable.empty()) return out + "unreachable: " + report.unreachable + "\n";
  for (const Finding& finding : report.findings) FindingText(out, finding);
  const auto count = [&](Status status, std::string_view word) {
    return std::to_string(report.Count(status)) + " " + std::string(word);
  };
  return out + count(Status::kOk, "ok, ") + count(Status::kWarning, "warning, ") +
         count(Status::kFailed, "failed, ") + count(Status::kSkipped, "skipped, in ") +
         std::to_string(report.elapsed_ms) + " ms\n";
}

std::string ReportJson(const Report& report) {
  std::string out = "{\"ok\":";
  out += report.HasFindings() || !report.unreachable.empty() ? "false" : "true";
  AppendJsonField(out, "engine", report.engine);
  if (!report.unreachable.empty()) AppendJsonField(out, "unreachable", report.unreachable);
  for (const Status status : {Status::kOk, Status::kWarning, Status::kFailed, Status::kSkipped}) {
    AppendJsonField(out, ToString(status) == "ok" ? "passed" : ToString(status),
                    static_cast<int64_t>(report.Count(status)));
  }
  AppendJsonField(out, "elapsed_ms", report.elapsed_ms);
  out += ",\"checks\":[";
  for (size_t i = 0; i < report.findings.size(); ++i) {
    if (i > 0) out += ',';
    FindingJson(out, report.findings[i]);
  }
  return out + "]}\n";
}

}  // namespace penstock::checkup
