#include "policy/reference.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "policy/options.h"
#include "policy/rate.h"

namespace penstock::policy {
namespace {

using enum Section;

constexpr std::array<Section, kSectionCount> kOrder = {kFile,   kEngine, kSnapshot, kListen, kTls,
                                                       kDomain, kLimit,  kOverride, kMask,   kMatcher};

std::string_view Introduction(Section section) {
  switch (section) {
    case kFile:
      return "What stands at the top of a file. In a folder of several, each of `revision`, `engine` and "
             "`listen` stands in one file.";
    case kEngine:
      return "Changes need a restart; only `on_failure` is taken by a reload.";
    case kSnapshot:
      return "The state of the memory engine, written to disk.";
    case kListen:
      return "Changes need a restart.";
    case kTls:
      return "Renewed certificates in the same files are taken without a restart.";
    case kDomain:
      return "`domains:` maps each domain's name to this. A domain stands in one file, once.";
    case kLimit:
      return "One limit; exactly one of `rate` and `permits`.";
    case kOverride:
      return "Other numbers for some of a limit's requests.";
    case kMask:
      return "What may stand behind an attribute in `key`: `key: [user, {ip: {mask6: 64}}]`. The value is "
             "then taken as an IP address and normalised (an IPv4-mapped address is the IPv4 one); a value "
             "that is no address is a key of its own.";
    case kMatcher:
      return "What may stand behind an attribute in `match`: a value (`path: /login`), a value with `*` "
             "(`user: \"partner-*\"`, as with `glob`), a list of which one must hold, or a mapping of these, "
             "all of which must hold.";
  }
  return {};
}

std::string Heading(Section section) {
  switch (section) {
    case kFile:
      return "The file";
    case kEngine:
      return "`engine`";
    case kSnapshot:
      return "`engine.snapshot`";
    case kListen:
      return "`listen`";
    case kTls:
      return "`listen.tls`";
    case kDomain:
      return "A domain";
    case kLimit:
      return "A limit: an item of `limits`";
    case kOverride:
      return "An override: an item of `overrides`";
    case kMask:
      return "A key part";
    case kMatcher:
      return "A matcher";
  }
  return {};
}

std::string Bounds(const Option& option) {
  if (option.type == ValueType::kChoice) {
    std::string out;
    for (const std::string_view choice : Choices(option))
      out += (out.empty() ? "`" : ", `") + std::string(choice) + "`";
    return out;
  }
  std::string out(TypeName(option.type));
  if (option.min == 0 && option.max == 0) return out;
  const auto written = [&](int64_t bound) {
    return option.type == ValueType::kDuration ? FormatDuration(Micros{bound}) : std::to_string(bound);
  };
  return out + ", " + written(option.min) + " to " + written(option.max);
}

std::string Row(const Option& option) {
  std::string out = "| `" + std::string(option.name) + "` | " + Bounds(option) + " | ";
  if (option.required) {
    out += "required";
  } else if (!option.fallback.empty()) {
    out += "`" + std::string(option.fallback) + "`";
  }
  out += " | " + std::string(option.unit) + " | " + std::string(option.meaning) + " |\n";
  return out;
}

constexpr std::string_view kHead = R"(# Policy reference

This page is made from the table of options that the parser itself reads (`src/policy/options.cc`); a test keeps the
two equal. [examples/policy.yaml](../examples/policy.yaml) shows every option in a file.

A policy is one YAML file, or a folder whose `*.yaml` and `*.yml` files are read together. `penstock lint FILE` says in
plain words what it means. Every error names file, line and the nearest valid word; a file with errors is not loaded,
and at a reload the last good policy stays in force.

Bounds: 16 MiB a file, 64 MiB and 1,000 files a folder, 40 levels, 4,000,000 values after aliases are followed; 16 parts
a key, 32 attributes a match, 32 limits that match one request, 64 KiB of key values. Text is UTF-8 without control
characters. Merge keys (`<<`) and tags are not taken.

)";

constexpr std::string_view kTail = R"(## Rates and durations

A rate is `COUNT/[N]UNIT` with the units `us ms s min h d w`: `100/min`, `5/10s`, `1_000_000/30d`. `0` denies always,
`unlimited` allows always. With `calendar` the rate is a count alone (`rate: 1000`). Numbers are whole, with single
underscores between digits where they help. A duration is `N` and a unit: `20ms`, `60s`.

A rate must be countable exactly in whole units: what is too large (a count times a period beyond 2^52 in the finest
tick that divides the period) is refused with its line. Units, names of limits and of domains are 1 to 64 of
`A-Z a-z 0-9 . _ -`.

## Which bucket

A limit applies to a request that has every attribute of its `key`, satisfies its `match` and names a cost in its `unit`.
Each combination of the key's values has a bucket. A bucket's identity is the domain, the limit's name, the algorithm, the
kind of window, and the key's attributes, masks and values. Rate, burst, match and unit are not part of it: change them and
what was used stays used. Change a part of the identity and fresh buckets start, which a reload and `lint` say.

An override whose match uses only the key's own attributes keeps the limit's buckets. One that matches another attribute
adds its match to the identity, so its requests have buckets of their own.

## Matching

An absent attribute satisfies `not` and nothing else; an empty value is there. Matching is by bytes: `*` and the `.` of a
regular expression stand for any byte, line breaks and broken UTF-8 included, so that no value slips past. Of an attribute
given twice in one request the last counts. The cost of matching does not grow with the number of limits that name a value
exactly.

## Calendar windows

`calendar` windows begin at local midnight: of every day, of Monday, of the 1st, of January 1st. A midnight that does not
exist is the first instant after it; one that comes twice is the first. The zones are those of the system's zone data.

## Other projects' files

The shapes of envoyproxy/ratelimit (`domain` and `descriptors`) and limitador (a list with `namespace`) are told apart and
refused by name: they are not read yet.
)";

// A line of the sample: an option with a value and, from the table, its meaning; or text as it stands.
struct SampleLine {
  int indent;
  bool off;
  Section section;
  std::string_view option;  // empty: `value` is the line
  std::string_view value;
  bool item = false;  // the first of a list's item
};

constexpr auto kSample = std::to_array<SampleLine>({
    {0, true, kFile, "revision", "1"},
    {0, false, kFile, "engine", ""},
    {2, false, kEngine, "url", "\"memory:\""},
    {2, false, kEngine, "timeout", "20ms"},
    {2, false, kEngine, "on_failure", "local"},
    {2, false, kEngine, "fleet_size", "auto"},
    {2, false, kEngine, "prefix", "\"pen:\""},
    {2, false, kEngine, "max_keys", "10_000_000"},
    {2, false, kEngine, "on_full", "deny"},
    {2, true, kEngine, "snapshot", ""},
    {4, true, kSnapshot, "path", "/var/lib/penstock/state"},
    {4, true, kSnapshot, "every", "60s"},
    {0, false, kFile, "listen", ""},
    {2, false, kListen, "http", "127.0.0.1:8080"},
    {2, false, kListen, "resp", "127.0.0.1:6380"},
    {2, false, kListen, "grpc", "off"},
    {2, true, kListen, "token_file", "/etc/penstock/token"},
    {2, true, kListen, "tls", ""},
    {4, true, kTls, "cert", "/etc/penstock/cert.pem"},
    {4, true, kTls, "key", "/etc/penstock/key.pem"},
    {4, true, kTls, "client_ca", "/etc/penstock/clients.pem"},
    {2, true, kListen, "trusted_proxies", "[127.0.0.0/8]"},
    {2, false, kListen, "threads", "auto"},
    {0, false, kFile, "domains", ""},
    {2, false, kFile, "", "api:"},
    {4, true, kDomain, "shard_by", "user"},
    {4, false, kDomain, "limits", ""},
    {6, false, kLimit, "name", "per-user", true},
    {8, false, kLimit, "key", "[user]"},
    {8, false, kLimit, "rate", "100/min"},
    {8, false, kLimit, "burst", "20"},
    {8, false, kLimit, "overrides", ""},
    {10, false, kOverride, "match", "{user: \"partner-*\"}", true},
    {12, false, kOverride, "rate", "1000/min"},
    {12, false, kOverride, "burst", "200"},
    {10, false, kOverride, "match", "{user: banned}", true},
    {12, false, kOverride, "rate", "0"},
    {6, false, kLimit, "name", "login", true},
    {8, false, kLimit, "match", "{path: /login, method: [POST, PUT]}"},
    {8, false, kLimit, "key", ""},
    {10, false, kFile, "", "- ip:"},
    {14, false, kMask, "mask4", "32"},
    {14, false, kMask, "mask6", "64"},
    {8, false, kLimit, "rate", "5/min"},
    {8, false, kLimit, "algorithm", "sliding_window"},
    {6, false, kLimit, "name", "tokens", true},
    {8, false, kLimit, "key", "[user]"},
    {8, false, kLimit, "unit", "tokens"},
    {8, false, kLimit, "rate", "500_000/min"},
    {6, false, kLimit, "name", "monthly", true},
    {8, false, kLimit, "key", "[account]"},
    {8, false, kLimit, "rate", "1000"},
    {8, false, kLimit, "calendar", "month"},
    {8, false, kLimit, "timezone", "Europe/Berlin"},
    {6, false, kLimit, "name", "trial", true},
    {8, false, kLimit, "key", "[account]"},
    {8, false, kLimit, "match", ""},
    {10, false, kFile, "", "plan:"},
    {12, false, kMatcher, "exact", "trial"},
    {10, false, kFile, "", "path:"},
    {12, false, kMatcher, "glob", "\"/v1/*\""},
    {12, false, kMatcher, "regex", "\"/v1/[a-z/]+\""},
    {12, false, kMatcher, "not", "[/v1/health, /v1/ready]"},
    {10, false, kFile, "", "ip:"},
    {12, false, kMatcher, "not", ""},
    {14, false, kMatcher, "cidr", "[10.0.0.0/8, \"fd00::/8\"]"},
    {8, false, kLimit, "rate", "50/h"},
    {8, false, kLimit, "from", "first_request"},
    {6, false, kLimit, "name", "everyone", true},
    {8, false, kLimit, "rate", "5000/s"},
    {8, false, kLimit, "shadow", "true"},
    {8, false, kLimit, "on_failure", "allow"},
    {6, true, kLimit, "name", "in-flight", true},
    {8, true, kLimit, "key", "[user]"},
    {8, true, kLimit, "permits", "5"},
    {8, true, kLimit, "lease", "30s"},
    {8, true, kLimit, "strict", "false"},
    {8, true, kLimit, "replicas", "0"},
    {8, true, kLimit, "overrides", ""},
    {10, true, kOverride, "match", "{user: batch}", true},
    {12, true, kOverride, "permits", "50"},
});

constexpr std::string_view kSampleHead =
    "# Every option of a policy file, with what it means. This file is made from the parser's own table of "
    "options\n"
    "# (src/policy/options.cc). Lines that begin with \"#:\" are off: take the mark away to use them.\n"
    "# docs/policy-reference.md has types, bounds and defaults.\n";

constexpr size_t kCommentColumn = 48;

}  // namespace

std::string ReferencePage() {
  std::string out(kHead);
  for (const Section section : kOrder) {
    out += "## " + Heading(section) + "\n\n" + std::string(Introduction(section)) + "\n\n";
    out += "| option | type | default | unit | meaning |\n|---|---|---|---|---|\n";
    for (const Option* option : OptionsOf(section)) out += Row(*option);
    out += "\n";
  }
  return out + std::string(kTail);
}

std::string SamplePolicy() {
  std::string out(kSampleHead);
  std::vector<const Option*> told;  // each meaning is told once
  for (const SampleLine& line : kSample) {
    std::string text = line.off ? "#:" : "";
    text.append(static_cast<size_t>(line.indent), ' ');
    if (line.option.empty()) {
      out += text + std::string(line.value) + "\n";
      continue;
    }
    if (line.item) text += "- ";
    text += std::string(line.option) + ":";
    if (!line.value.empty()) text += " " + std::string(line.value);
    const Option* option = FindOption(line.section, line.option);
    if (std::find(told.begin(), told.end(), option) == told.end()) {
      told.push_back(option);
      text.append(text.size() < kCommentColumn ? kCommentColumn - text.size() : 1, ' ');
      text += "# " + std::string(option->meaning);
    }
    out += text + "\n";
  }
  return out;
}

}  // namespace penstock::policy
