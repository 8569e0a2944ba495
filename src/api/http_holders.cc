#include "api/http_holders.h"

#include <algorithm>
#include <array>

#include "api/milliseconds.h"
#include "base/bytes.h"
#include "base/json_text.h"
#include "http/problem.h"
#include "http/url.h"
#include "service/holder_desk.h"

namespace penstock::api {
namespace {

bool IsDelete(const http::Request& request) { return request.method == http::Method::kDelete; }

void AppendMember(std::string& out, std::string_view name, int64_t value) {
  out.append(",\"").append(name).append("\":");
  AppendInt(out, value);
}

// Of an ad hoc semaphore the number of permits is whatever its next caller says.
void AppendKnown(std::string& out, std::string_view name, int64_t value, bool known) {
  if (known) return AppendMember(out, name, value);
  out.append(",\"").append(name).append("\":null");
}

void AppendHolder(std::string& out, const service::HolderInfo& entry) {
  out.append(R"({"id":")").append(entry.id.view()).append(R"(","holder":)");
  AppendJsonString(out, entry.holder);
  AppendMember(out, "weight", entry.weight);
  AppendMember(out, "fence", entry.fence);
  AppendMember(out, "expires_in_ms", ToFloorMs(entry.expires_in));
  out += '}';
}

std::string ListJson(std::string_view about, const service::Holders& holders) {
  std::string json = "{";
  json += about;
  const bool known = holders.permits > 0;
  AppendKnown(json, "permits", holders.permits, known);
  AppendMember(json, "in_use", holders.in_use);
  AppendKnown(json, "available", std::max<int64_t>(holders.permits - holders.in_use, 0), known);
  AppendMember(json, "waiting", holders.waiting);
  json += R"(,"holders":[)";
  for (size_t i = 0; i < holders.entries.size(); ++i) {
    if (i > 0) json += ',';
    AppendHolder(json, holders.entries[i]);
  }
  json += holders.more ? R"(],"more":true})" : R"(],"more":false})";
  return json;
}

// How many of the releases came to each end.
std::string ReleasedJson(const Together& together, size_t& unavailable) {
  using core::PermitFate;
  std::string json = together.about;
  for (const PermitFate fate :
       {PermitFate::kReleased, PermitFate::kExpired, PermitFate::kUnknown, PermitFate::kUnavailable}) {
    const auto count = std::count(together.items.begin(), together.items.end(), ToString(fate));
    AppendMember(json, ToString(fate), count);
    if (fate == PermitFate::kUnavailable) unavailable = static_cast<size_t>(count);
  }
  return json + "}";
}

}  // namespace

void HttpHolders::Handle(const http::Request& request, std::string_view, const HttpSlot& slot) {
  if (RefuseMethod(request, slot)) return;
  const Result<std::vector<http::QueryParameter>> query = http::ParseQuery(request.query);
  if (!query) return AnswerError(slot, query.error());
  const http::QueryParameter* key = nullptr;
  std::string_view holder;
  for (const http::QueryParameter& parameter : *query) {
    if (parameter.name == "key") {
      key = &parameter;
    } else if (parameter.name == "holder") {
      holder = parameter.value;
    } else {
      return AnswerError(slot, {ErrorKind::kInvalid, "unknown parameter \"" + parameter.name.substr(0, 64) +
                                                         "\"; key and holder are taken"});
    }
  }
  if (key == nullptr) return AnswerError(slot, {ErrorKind::kInvalid, "key: is missing"});
  service::Request bucket;
  bucket.ad_hoc = service::kAnySemaphore;
  bucket.ad_hoc_key = key->value;
  HttpAsk ask = For(slot);
  ask.together = NewArray(0);
  ask.together->about = R"("key":)";
  AppendJsonString(ask.together->about, key->value);
  List(request, bucket, holder, std::move(ask));
}

void HttpHolders::OfLimit(const http::Request& request, std::string_view domain, std::string_view name,
                          const HttpSlot& slot) {
  if (RefuseMethod(request, slot)) return;
  const Result<std::vector<http::QueryParameter>> query = http::ParseQuery(request.query);
  if (!query) return AnswerError(slot, query.error());
  std::vector<Attribute> attributes;
  std::string_view holder;
  for (const http::QueryParameter& parameter : *query) {
    if (parameter.name == "holder") {
      holder = parameter.value;
    } else {
      attributes.push_back({parameter.name, parameter.value});
    }
  }
  service::Request bucket;
  bucket.domain = domain;
  bucket.only_limit = name;
  bucket.attributes = attributes;
  HttpAsk ask = For(slot);
  ask.together = NewArray(0);
  ask.together->about = R"("name":)";
  AppendJsonString(ask.together->about, name);
  List(request, bucket, holder, std::move(ask));
}

bool HttpHolders::RefuseMethod(const http::Request& request, const HttpSlot& slot) {
  using http::Method;
  if (request.method == Method::kGet || request.method == Method::kHead || IsDelete(request)) return false;
  turn_.Answer(slot, [](std::string& out, const http::ReplyShape& shape) {
    http::WriteMethodNotAllowed(out, shape, "GET, HEAD, DELETE");
  });
  return true;
}

void HttpHolders::List(const http::Request& request, const service::Request& bucket, std::string_view holder,
                       HttpAsk ask) {
  if (IsDelete(request) && holder.empty()) {
    return AnswerError(ask.slot,
                       {ErrorKind::kInvalid, "holder: is missing; whose permits are to be released"});
  }
  if (holder.size() > kMaxHolderBytes) {
    return AnswerError(ask.slot, {ErrorKind::kInvalid,
                                  "holder: must be 1 to " + std::to_string(kMaxHolderBytes) + " bytes"});
  }
  ask.what = IsDelete(request) ? kRelease : kShow;
  turn_.List(bucket, holder, std::move(ask));
}

void HttpHolders::HoldersListed(const HttpAsk& ask, const Result<const service::Holders*>& holders) noexcept {
  if (!holders) return AnswerError(ask.slot, holders.error());
  if ((*holders)->unavailable != Reason::kNone) {
    return AnswerError(ask.slot,
                       {ErrorKind::kUnavailable,
                        "the engine could not be asked: " + std::string(ToString((*holders)->unavailable))});
  }
  if (ask.what == kRelease) return ReleaseAll(ask, **holders);
  const std::string json = ListJson(ask.together->about, **holders);
  turn_.Answer(ask.slot,
               [&](std::string& out, const http::ReplyShape& shape) { WriteJson(out, shape, 200, json); });
}

void HttpHolders::ReleaseAll(const HttpAsk& ask, const service::Holders& holders) {
  Together& together = *ask.together;
  together.about.insert(0, "{");
  together.about += holders.more ? R"(,"more":true)" : R"(,"more":false)";
  together.missing = holders.entries.size() + 1;  // and we, so that it does not end before all are asked for
  together.items.reserve(holders.entries.size());
  for (const service::HolderInfo& entry : holders.entries) {
    HttpAsk release = For(ask.slot);
    release.together = ask.together;
    turn_.Release(entry.id.view(), std::move(release));
  }
  turn_.FlushCalls();
  FinishRelease(ask);
}

void HttpHolders::PermitAnswered(const HttpAsk& ask, const service::PermitAnswer& answer) noexcept {
  ask.together->items.emplace_back(ToString(answer.fate));
  FinishRelease(ask);
}

void HttpHolders::FinishRelease(const HttpAsk& ask) {
  if (--ask.together->missing > 0) return;
  size_t unavailable = 0;
  const std::string json = ReleasedJson(*ask.together, unavailable);
  turn_.Answer(ask.slot, [&](std::string& out, const http::ReplyShape& shape) {
    WriteJson(out, shape, unavailable > 0 ? 503 : 200, json);
  });
}

}  // namespace penstock::api
