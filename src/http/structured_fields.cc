#include "http/structured_fields.h"

#include <algorithm>

#include "base/bytes.h"

namespace penstock::http {
namespace {

constexpr int64_t kLargestInteger = 999'999'999'999'999;

void AppendParameter(std::string& out, std::string_view name, int64_t value) {
  out += name;
  AppendInt(out, std::clamp(value, -kLargestInteger, kLargestInteger));
}

}  // namespace

void AppendFieldString(std::string& out, std::string_view text) {
  constexpr auto kPlain = [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; };
  out += '"';
  while (!text.empty()) {
    size_t run = 0;
    while (run < text.size() && kPlain(text[run])) ++run;
    out.append(text.substr(0, run));
    text.remove_prefix(run);
    if (text.empty()) break;
    const char c = text.front();
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c < 0x7f ? c : '?';
    text.remove_prefix(1);
  }
  out += '"';
}

void RateLimitList::Begin(std::string_view name) {
  if (!empty_) out_ += ", ";
  empty_ = false;
  AppendFieldString(out_, name);
}

void RateLimitList::Policy(const PolicyItem& item) {
  Begin(item.name);
  AppendParameter(out_, ";q=", item.quota);
  if (!item.unit.empty() && item.unit != "requests") {
    out_ += ";qu=";
    AppendFieldString(out_, item.unit);
  }
  if (item.window > Micros{0}) AppendParameter(out_, ";w=", CeilSeconds(item.window));
}

void RateLimitList::Limit(const LimitItem& item) {
  Begin(item.name);
  AppendParameter(out_, ";r=", item.remaining);
  if (item.wait) AppendParameter(out_, ";t=", CeilSeconds(*item.wait));
}

void WriteRetryAfter(ResponseWriter& writer, Micros wait) { writer.Header("Retry-After", CeilSeconds(wait)); }

void WritePlainRateLimit(ResponseWriter& writer, const PlainRateLimit& limit) {
  writer.Header("X-RateLimit-Limit", limit.limit);
  writer.Header("X-RateLimit-Remaining", limit.remaining);
  writer.Header("X-RateLimit-Reset", CeilSeconds(limit.reset));
}

}  // namespace penstock::http
