#include "policy/options.h"

#include <array>

#include "penstock/request.h"

namespace penstock::policy {
namespace {

using enum Section;
using T = ValueType;

constexpr int64_t kMs = 1'000;
constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kHour = 3'600 * kSecond;
constexpr int64_t kMaxRevision = int64_t{1} << 52;
constexpr int64_t kMaxKeys = 2'000'000'000;

// clang-format off
constexpr auto kOptions = std::to_array<Option>({
    {kFile, "revision", T::kCount, "", "", "counts the edits of this file: one with a lower revision than the engine knows follows that, the same revision may not say something else; without it the file loaded last wins", 1, kMaxRevision},
    {kFile, "engine", T::kMapping, "", "", "where buckets live", 0, 0, {}, false, kEngine},
    {kFile, "listen", T::kMapping, "", "", "where the server listens, and for whom", 0, 0, {}, false, kListen},
    {kFile, "domains", T::kDomains, "", "", "the limits, by domain", 0, 0, {}, false, kDomain},

    {kEngine, "url", T::kText, "memory:", "", "the engine: memory:, redis:// (rediss://, redis+sentinel://, redis+cluster://) or unix://"},
    {kEngine, "timeout", T::kDuration, "20ms", "", "no decision takes longer; what is not answered by then is unavailable", kMs, 60 * kSecond},
    {kEngine, "on_failure", T::kChoice, "local", "", "what limits do when the engine cannot be asked, unless they say their own", 0, 0, "allow|deny|local"},
    {kEngine, "fleet_size", T::kAutoCount, "auto", "nodes", "by how many nodes on_failure: local divides a limit", 1, 100'000},
    {kEngine, "prefix", T::kText, "pen:", "", "stands before every key in a store that others use too"},
    {kEngine, "max_keys", T::kCount, "10_000_000", "keys", "memory engine: how many buckets it holds at most", 1'000, kMaxKeys},
    {kEngine, "on_full", T::kChoice, "deny", "", "memory engine: the answer when all max_keys are in use", 0, 0, "allow|deny"},
    {kEngine, "snapshot", T::kMapping, "", "", "memory engine: what outlives a restart", 0, 0, {}, false, kSnapshot},

    {kSnapshot, "path", T::kText, "", "", "the file that is written", 0, 0, {}, true},
    {kSnapshot, "every", T::kDuration, "60s", "", "how often; a crash loses what was used since", kSecond, 24 * kHour},

    {kListen, "http", T::kAddress, "127.0.0.1:8080", "", "where HTTP is served, or off; port 0 takes a free one"},
    {kListen, "resp", T::kAddress, "127.0.0.1:6380", "", "where RESP (the Redis protocol) is served, or off"},
    {kListen, "grpc", T::kAddress, "off", "", "where gRPC is served, or off"},
    {kListen, "token_file", T::kText, "", "", "a file with the token that callers must show; PENSTOCK_TOKEN beats it"},
    {kListen, "tls", T::kMapping, "", "", "serve HTTP and RESP over TLS", 0, 0, {}, false, kTls},
    {kListen, "trusted_proxies", T::kTextList, "", "", "networks whose X-Forwarded-* headers are believed"},
    {kListen, "threads", T::kAutoCount, "auto", "threads", "event loops; auto is one a core", 1, 256},

    {kTls, "cert", T::kText, "", "", "PEM file with the certificate and its chain", 0, 0, {}, true},
    {kTls, "key", T::kText, "", "", "PEM file with the private key", 0, 0, {}, true},
    {kTls, "client_ca", T::kText, "", "", "PEM file: only clients with a certificate of these are served"},

    {kDomain, "shard_by", T::kText, "", "", "an attribute of keys: a Redis cluster keeps buckets with one value of it side by side and decides them in one step"},
    {kDomain, "limits", T::kList, "", "", "the domain's limits; all that match a request are decided together", 0, 0, {}, true, kLimit},

    {kLimit, "name", T::kName, "", "", "names the limit in answers and metrics; part of its buckets' identity", 0, 0, {}, true},
    {kLimit, "key", T::kKey, "", "", "one bucket per value of these attributes; a request without one of them is not limited; none = one bucket", 0, 0, {}, false, kMask},
    {kLimit, "match", T::kMatch, "", "", "only requests whose attributes satisfy all of these", 0, 0, {}, false, kMatcher},
    {kLimit, "rate", T::kRate, "", "", "COUNT/PERIOD, e.g. 100/min, 5/10s; 0 denies always; unlimited; a count alone with calendar"},
    {kLimit, "burst", T::kCount, "", "units", "token_bucket: how much may come at once; default: the rate's count", 1, int64_t{1} << 52},
    {kLimit, "algorithm", T::kChoice, "token_bucket", "", "how the rate is counted; calendar and from imply fixed_window", 0, 0, "token_bucket|fixed_window|sliding_window|sliding_log"},
    {kLimit, "calendar", T::kChoice, "", "", "fixed_window: from one local midnight to another", 0, 0, "day|week|month|year"},
    {kLimit, "timezone", T::kText, "UTC", "", "calendar: whose midnight, e.g. Europe/Berlin"},
    {kLimit, "from", T::kChoice, "epoch", "", "fixed_window: where windows begin", 0, 0, "epoch|first_request"},
    {kLimit, "permits", T::kCount, "", "permits", "how many may be held at once, instead of a rate", 1, kMaxCost},
    {kLimit, "lease", T::kDuration, "30s", "", "permits: how long one is held without renewal", 100 * kMs, 24 * kHour},
    {kLimit, "strict", T::kFlag, "false", "", "permits: after a failover or a loss of the store's data grant nothing for one lease, so that never more than permits are held"},
    {kLimit, "replicas", T::kCount, "0", "", "permits: a grant counts only when so many replicas have it", 0, 5},
    {kLimit, "unit", T::kName, "requests", "", "what is counted; a request that names no cost in it is not limited"},
    {kLimit, "shadow", T::kFlag, "false", "", "count what would be denied, but deny nothing"},
    {kLimit, "on_failure", T::kChoice, "", "", "when the engine cannot be asked; default: the engine's on_failure, or deny with strict or replicas", 0, 0, "allow|deny|local"},
    {kLimit, "overrides", T::kList, "", "", "other numbers for some requests; the first that matches wins", 0, 0, {}, false, kOverride},

    {kOverride, "match", T::kMatch, "", "", "which requests; matching other attributes than the key's gives buckets of its own", 0, 0, {}, true, kMatcher},
    {kOverride, "rate", T::kRate, "", "", "instead of the limit's"},
    {kOverride, "burst", T::kCount, "", "units", "instead of the limit's; what an override does not say stays", 1, int64_t{1} << 52},
    {kOverride, "permits", T::kCount, "", "permits", "instead of the limit's", 1, kMaxCost},

    {kMask, "mask4", T::kCount, "32", "bits", "how much of an IPv4 address tells callers apart", 0, 32},
    {kMask, "mask6", T::kCount, "128", "bits", "how much of an IPv6 address tells callers apart", 0, 128},

    {kMatcher, "exact", T::kTextList, "", "", "the value is this, byte by byte (a * is no wildcard)"},
    {kMatcher, "glob", T::kTextList, "", "", "the value has this shape; * stands for any run of bytes, slashes too"},
    {kMatcher, "regex", T::kTextList, "", "", "the whole value matches this RE2 expression; . stands for any byte"},
    {kMatcher, "cidr", T::kTextList, "", "", "the value is an IP address in this network"},
    {kMatcher, "not", T::kMatcher, "", "", "this does not hold; true for an absent attribute", 0, 0, {}, false, kMatcher},
});
// clang-format on

}  // namespace

std::span<const Option> AllOptions() { return kOptions; }

std::vector<const Option*> OptionsOf(Section section) {
  std::vector<const Option*> out;
  for (const Option& option : kOptions) {
    if (option.section == section) out.push_back(&option);
  }
  return out;
}

const Option* FindOption(Section section, std::string_view name) {
  for (const Option& option : kOptions) {
    if (option.section == section && option.name == name) return &option;
  }
  return nullptr;
}

std::string_view SectionName(Section section) {
  switch (section) {
    case kFile:
      return "the file";
    case kEngine:
      return "engine";
    case kSnapshot:
      return "engine.snapshot";
    case kListen:
      return "listen";
    case kTls:
      return "listen.tls";
    case kDomain:
      return "a domain";
    case kLimit:
      return "a limit";
    case kOverride:
      return "an override";
    case kMask:
      return "a key part";
    case kMatcher:
      return "a matcher";
  }
  return {};
}

std::string_view TypeName(ValueType type) {
  switch (type) {
    case T::kText:
      return "text";
    case T::kName:
      return "name";
    case T::kCount:
      return "whole number";
    case T::kAutoCount:
      return "auto or whole number";
    case T::kRate:
      return "rate";
    case T::kDuration:
      return "duration";
    case T::kFlag:
      return "true or false";
    case T::kChoice:
      return "one of";
    case T::kTextList:
      return "text or list of texts";
    case T::kAddress:
      return "ADDRESS:PORT or off";
    case T::kMapping:
      return "mapping";
    case T::kList:
      return "list";
    case T::kDomains:
      return "mapping by domain";
    case T::kKey:
      return "list of attributes";
    case T::kMatch:
      return "mapping by attribute";
    case T::kMatcher:
      return "matcher";
  }
  return {};
}

std::vector<std::string_view> Choices(const Option& option) {
  std::vector<std::string_view> out;
  std::string_view rest = option.choices;
  while (!rest.empty()) {
    const size_t bar = rest.find('|');
    out.push_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return out;
}

}  // namespace penstock::policy
