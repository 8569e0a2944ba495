// A lint report as text and as JSON.
#include "base/bytes.h"
#include "base/json_text.h"
#include "policy/lint.h"

namespace penstock::policy {
namespace {

void Line(std::string& out, std::string_view indent, std::string_view name, std::string_view value) {
  constexpr size_t kColumn = 12;
  out += indent;
  out += name;
  out.append(name.size() < kColumn ? kColumn - name.size() : 1, ' ');
  out += value;
  out += '\n';
}

void LimitText(std::string& out, const LintLimit& limit) {
  out += limit.domain + "/" + limit.name;
  if (limit.line > 0) out += " (" + limit.file + ":" + std::to_string(limit.line) + ")";
  out += limit.shadow ? " shadow: observed only\n" : "\n";
  Line(out, "  ", "counts", limit.counts + ", " + limit.buckets);
  Line(out, "  ", "applies to", limit.applies);
  Line(out, "  ", "rate", limit.rate);
  Line(out, "  ", "exactly", limit.exact);
  Line(out, "  ", "at worst", limit.bound);
  Line(out, "  ", "engine down", limit.engine_down);
  for (const LintOverride& change : limit.overrides) {
    Line(out, "  ", "override", change.applies);
    Line(out, "    ", "rate", change.rate);
    Line(out, "    ", "exactly", change.exact);
    Line(out, "    ", "counted in", change.buckets);
  }
  for (const std::string& warning : limit.warnings) Line(out, "  ", "WARNING", warning);
}

void ListField(std::string& out, std::string_view name, const std::vector<std::string>& values) {
  AppendJsonName(out, name);
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(out, values[i]);
  }
  out += ']';
}

void LimitJson(std::string& out, const LintLimit& limit) {
  out += '{';
  AppendJsonField(out, "domain", limit.domain);
  AppendJsonField(out, "name", limit.name);
  AppendJsonField(out, "file", limit.file);
  AppendJsonField(out, "line", limit.line);
  AppendJsonField(out, "counts", limit.counts);
  AppendJsonField(out, "buckets", limit.buckets);
  AppendJsonField(out, "applies_to", limit.applies);
  AppendJsonField(out, "rate", limit.rate);
  AppendJsonField(out, "exactly", limit.exact);
  AppendJsonField(out, "at_worst", limit.bound);
  AppendJsonField(out, "engine_down", limit.engine_down);
  out += limit.shadow ? ",\"shadow\":true" : ",\"shadow\":false";
  out += ",\"overrides\":[";
  for (size_t i = 0; i < limit.overrides.size(); ++i) {
    const LintOverride& change = limit.overrides[i];
    out += i > 0 ? ",{" : "{";
    AppendJsonField(out, "line", change.line);
    AppendJsonField(out, "applies_to", change.applies);
    AppendJsonField(out, "rate", change.rate);
    AppendJsonField(out, "exactly", change.exact);
    AppendJsonField(out, "counted_in", change.buckets);
    out += '}';
  }
  out += ']';
  ListField(out, "warnings", limit.warnings);
  out += '}';
}

}  // namespace

std::string LintText(const LintReport& report) {
  std::string out;
  if (report.revision > 0) out += "revision " + std::to_string(report.revision) + "\n";
  for (const LintLimit& limit : report.limits) LimitText(out, limit);
  for (const std::string& warning : report.warnings) out += "WARNING: " + warning + "\n";
  for (const std::string& fresh : report.fresh_buckets) out += "CHANGE: " + fresh + "\n";
  return out;
}

std::string LintJson(const LintReport& report) {
  std::string out = "{\"ok\":true";
  AppendJsonField(out, "revision", report.revision);
  out += ",\"limits\":[";
  for (size_t i = 0; i < report.limits.size(); ++i) {
    if (i > 0) out += ',';
    LimitJson(out, report.limits[i]);
  }
  out += ']';
  ListField(out, "warnings", report.warnings);
  ListField(out, "fresh_buckets", report.fresh_buckets);
  return out + "}\n";
}

std::string ErrorsJson(const Diagnostics& diagnostics) {
  std::string out = "{\"ok\":false,\"errors\":[";
  for (size_t i = 0; i < diagnostics.errors().size(); ++i) {
    const Diagnostic& error = diagnostics.errors()[i];
    out += i > 0 ? ",{" : "{";
    AppendJsonField(out, "file", error.file);
    AppendJsonField(out, "line", error.line);
    AppendJsonField(out, "message", error.message);
    out += '}';
  }
  out += ']';
  AppendJsonField(out, "total", static_cast<int64_t>(diagnostics.total()));
  return out + "}\n";
}

}  // namespace penstock::policy
