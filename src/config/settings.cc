#include "config/settings.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/bytes.h"
#include "config/files.h"

namespace penstock::config {
namespace {

using policy::Option;
using policy::OptionReader;
using policy::Quoted;
using policy::Reporter;
using policy::Section;
using policy::YamlValue;

constexpr size_t kMaxTokenBytes = 4'096;
constexpr size_t kMaxTrustedProxies = 1'000;

core::OnFailure OnFailureOf(std::string_view word) {
  if (word == "allow") return core::OnFailure::kAllow;
  return word == "deny" ? core::OnFailure::kDeny : core::OnFailure::kLocal;
}

std::string_view Fallback(Section section, std::string_view name) {
  return policy::FindOption(section, name)->fallback;
}

// A listener's address; when it is wrong, the default.
std::optional<Endpoint> ReadEndpoint(OptionReader& options, std::string_view name, const Reporter& reporter) {
  const auto text = options.Text(name);
  if (text) {
    auto endpoint = ParseListen(*text);
    if (endpoint) return *endpoint;
    reporter.Error(options.Line(name), std::string(name) + ": " + endpoint.error().message);
  }
  return *ParseListen(Fallback(Section::kListen, name));
}

std::vector<Cidr> ReadNetworks(OptionReader& options, const Reporter& reporter) {
  std::vector<Cidr> out;
  for (const auto& [text, line] : options.Texts("trusted_proxies")) {
    const auto network = Cidr::Parse(text);
    if (!network) {
      reporter.Error(
          line, "trusted_proxies: " + Quoted(text) + " is no network (e.g. 10.0.0.0/8 or 2001:db8::/32)");
    } else if (out.size() == kMaxTrustedProxies) {
      reporter.Error(line, "trusted_proxies: more than " + std::to_string(kMaxTrustedProxies) + " networks");
      break;
    } else {
      out.push_back(*network);
    }
  }
  return out;
}

}  // namespace

Result<std::optional<Endpoint>> ParseListen(std::string_view text) {
  if (text == "off") return std::nullopt;
  Result<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint) return Invalid(endpoint.error().message + " (or off)");
  return *endpoint;
}

Result<void> CheckEngineUrl(std::string_view url) {
  if (url == "memory:" || url == "memory") return {};
  constexpr std::string_view kEngines[] = {
      "memory",          "redis",  "rediss",  "redis+sentinel",  "rediss+sentinel",  "redis+cluster",
      "rediss+cluster",  "valkey", "valkeys", "valkey+sentinel", "valkeys+sentinel", "valkey+cluster",
      "valkeys+cluster", "unix"};
  const auto stores = std::span(kEngines).subspan<1>();
  // Not the whole URL: it may hold a password.
  const std::string_view scheme = url.substr(0, url.find(':'));
  const bool is_store = std::ranges::find(stores, scheme) != stores.end();
  if (is_store && url.substr(scheme.size()).starts_with("://"))
    return {};  // the engine itself reads the rest
  if (scheme == "etcd") {
    return Invalid("the engine \"etcd://\" is not in this build yet (memory: and redis:// are)");
  }
  const std::string_view near = Nearest(scheme, kEngines, std::size(kEngines));
  return Invalid(
      "unknown engine " + Quoted(scheme) +
      (near.empty() ? " (memory: and redis:// are two)" : " (did you mean " + std::string(near) + ":?)"));
}

EngineOptions ReadEngine(const std::optional<YamlValue>& value, const Reporter& reporter) {
  const OptionReader defaults(Section::kEngine, std::nullopt, reporter);
  OptionReader options(Section::kEngine, value, reporter);
  EngineOptions out;
  const auto fallback = [](std::string_view name) { return Fallback(Section::kEngine, name); };
  out.url = options.Text("url").value_or(std::string(fallback("url")));
  if (const auto known = CheckEngineUrl(out.url); !known) {
    reporter.Error(options.Line("url"), known.error().message);
  }
  if (out.url == "memory") out.url = "memory:";
  out.timeout = options.Duration("timeout").value_or(policy::ParseDuration(fallback("timeout")).value());
  out.on_failure = OnFailureOf(options.Text("on_failure").value_or(std::string(fallback("on_failure"))));
  out.fleet_size = options.Count("fleet_size").value_or(0);
  out.prefix = options.Text("prefix").value_or(std::string(fallback("prefix")));
  out.max_keys = options.Count("max_keys").value_or(policy::ParseCount(fallback("max_keys")).value());
  out.allow_when_full = options.Text("on_full").value_or("deny") == "allow";
  if (const auto snapshot = options.Value("snapshot")) {
    OptionReader inner(Section::kSnapshot, snapshot, reporter);
    SnapshotOptions made;
    made.path = inner.Text("path").value_or("");
    made.every = inner.Duration("every").value_or(
        policy::ParseDuration(Fallback(Section::kSnapshot, "every")).value());
    out.snapshot = std::move(made);
  }
  return out;
}

ListenOptions ReadListen(const std::optional<YamlValue>& value, const Reporter& reporter) {
  OptionReader options(Section::kListen, value, reporter);
  ListenOptions out;
  out.http = ReadEndpoint(options, "http", reporter);
  out.resp = ReadEndpoint(options, "resp", reporter);
  out.grpc = ReadEndpoint(options, "grpc", reporter);
  if (out.grpc) {
    reporter.Error(options.Line("grpc"), "grpc: gRPC is not in this build yet (off is the only value)");
    out.grpc.reset();
  }
  if (options.Has("token_file")) out.token_file = options.Text("token_file").value_or("");
  if (const auto tls = options.Value("tls")) {
    OptionReader inner(Section::kTls, tls, reporter);
    TlsOptions made;
    made.cert = inner.Text("cert").value_or("");
    made.key = inner.Text("key").value_or("");
    if (inner.Has("client_ca")) made.client_ca = inner.Text("client_ca").value_or("");
    out.tls = std::move(made);
  }
  out.trusted_proxies = ReadNetworks(options, reporter);
  out.threads = options.Count("threads").value_or(0);
  return out;
}

Result<void> ApplyFlags(const Flags& flags, EngineOptions& engine, ListenOptions& listen) {
  if (flags.engine) {
    if (const auto known = CheckEngineUrl(*flags.engine); !known) {
      return Invalid("--engine: " + known.error().message);
    }
    engine.url = *flags.engine == "memory" ? "memory:" : *flags.engine;
  }
  const std::pair<const std::optional<std::string>&, std::pair<std::string_view, std::optional<Endpoint>*>>
      ends[] = {{flags.http, {"--http", &listen.http}},
                {flags.resp, {"--resp", &listen.resp}},
                {flags.grpc, {"--grpc", &listen.grpc}}};
  for (const auto& [text, target] : ends) {
    if (!text) continue;
    const auto endpoint = ParseListen(*text);
    if (!endpoint) return Invalid(std::string(target.first) + ": " + endpoint.error().message);
    *target.second = *endpoint;
  }
  if (listen.grpc) return Invalid("--grpc: gRPC is not in this build yet (off is the only value)");
  if (flags.token_file) listen.token_file = *flags.token_file;
  if (flags.threads) {
    const Option& option = *policy::FindOption(Section::kListen, "threads");
    if (*flags.threads < option.min || *flags.threads > option.max) {
      return Invalid("--threads is " + std::to_string(option.min) + " to " + std::to_string(option.max));
    }
    listen.threads = *flags.threads;
  }
  if (flags.snapshot) {
    if (flags.snapshot->empty()) return Invalid("--snapshot needs a path");
    if (!engine.snapshot) {
      engine.snapshot =
          SnapshotOptions{"", policy::ParseDuration(Fallback(Section::kSnapshot, "every")).value()};
    }
    engine.snapshot->path = *flags.snapshot;
  }
  return {};
}

Result<std::optional<std::string>> ReadToken(const ListenOptions& listen,
                                             const std::function<const char*(const char*)>& environment) {
  std::string token;
  std::string origin;
  if (const char* given = environment("PENSTOCK_TOKEN"); given != nullptr) {
    token = given;
    origin = "PENSTOCK_TOKEN";
  } else if (!listen.token_file.empty()) {
    auto text = ReadFileBounded(listen.token_file, kMaxTokenBytes + 2);
    if (!text) return tl::unexpected(text.error());
    token = text->substr(0, text->find('\n'));
    if (!token.empty() && token.back() == '\r') token.pop_back();
    origin = listen.token_file;
  } else {
    return std::nullopt;
  }
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  // An empty token would let everybody in while it looks like protection.
  if (token.empty() || token.size() > kMaxTokenBytes || !printable) {
    return Invalid(origin + ": a token is 1 to " + std::to_string(kMaxTokenBytes) +
                   " printable ASCII characters without spaces");
  }
  return token;
}

std::vector<std::string> Differences(const EngineOptions& before, const EngineOptions& after) {
  std::vector<std::string> out;
  const auto note = [&](bool same, const char* name) {
    if (!same) out.push_back(std::string("engine.") + name);
  };
  note(before.url == after.url, "url");
  note(before.timeout == after.timeout, "timeout");
  note(before.fleet_size == after.fleet_size, "fleet_size");
  note(before.prefix == after.prefix, "prefix");
  note(before.max_keys == after.max_keys, "max_keys");
  note(before.allow_when_full == after.allow_when_full, "on_full");
  note(before.snapshot == after.snapshot, "snapshot");
  return out;
}

std::vector<std::string> Differences(const ListenOptions& before, const ListenOptions& after) {
  std::vector<std::string> out;
  const auto note = [&](bool same, const char* name) {
    if (!same) out.push_back(std::string("listen.") + name);
  };
  note(before.http == after.http, "http");
  note(before.resp == after.resp, "resp");
  note(before.grpc == after.grpc, "grpc");
  note(before.token_file == after.token_file, "token_file");
  note(before.tls == after.tls, "tls");
  note(before.trusted_proxies == after.trusted_proxies, "trusted_proxies");
  note(before.threads == after.threads, "threads");
  return out;
}

}  // namespace penstock::config
