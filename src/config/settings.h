// The sections `engine:` and `listen:` of a policy file, and what flags and environment put over them. Plain
// structs; the defaults stand in the policy's table of options (policy/options.h) and nowhere else, so make one by
// ReadEngine or ReadListen without a value.
//
// Thread contract: plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "core/limit.h"
#include "policy/option_reader.h"

namespace penstock::config {

// An endpoint (base/endpoint.h), or `off`, which is nullopt.
Result<std::optional<Endpoint>> ParseListen(std::string_view text);

struct SnapshotOptions {
  std::string path;
  Micros every;
  friend bool operator==(const SnapshotOptions&, const SnapshotOptions&) = default;
};

struct EngineOptions {
  std::string url;
  Micros timeout;
  core::OnFailure on_failure = core::OnFailure::kLocal;
  int64_t fleet_size = 0;  // 0 = auto
  std::string prefix;
  int64_t max_keys = 0;
  bool allow_when_full = false;  // on_full: allow
  std::optional<SnapshotOptions> snapshot;
};

struct TlsOptions {
  std::string cert;
  std::string key;
  std::string client_ca;  // empty = none
  friend bool operator==(const TlsOptions&, const TlsOptions&) = default;
};

struct ListenOptions {
  std::optional<Endpoint> http;  // nullopt = off
  std::optional<Endpoint> resp;
  std::optional<Endpoint> grpc;
  std::string token_file;  // empty = none
  std::optional<TlsOptions> tls;
  std::vector<Cidr> trusted_proxies;
  int64_t threads = 0;  // 0 = auto
};

// From a file's section, or the defaults without one. What is wrong is reported, and the default stands in its place.
EngineOptions ReadEngine(const std::optional<policy::YamlValue>& value, const policy::Reporter& reporter);
ListenOptions ReadListen(const std::optional<policy::YamlValue>& value, const policy::Reporter& reporter);

// Whether the URL names an engine of this build; what stands behind a store's scheme is read by its engine.
Result<void> CheckEngineUrl(std::string_view url);

// What the command line says; each beats the file where it is given.
struct Flags {
  std::optional<std::string> engine;
  std::optional<std::string> http;
  std::optional<std::string> resp;
  std::optional<std::string> grpc;
  std::optional<std::string> token_file;
  std::optional<int64_t> threads;
  std::optional<std::string> snapshot;  // the path
};
Result<void> ApplyFlags(const Flags& flags, EngineOptions& engine, ListenOptions& listen);

// The service token: PENSTOCK_TOKEN, else the token file's first line; nullopt when neither is set. `environment` looks
// a variable up (null = unset), so that tests need none.
Result<std::optional<std::string>> ReadToken(const ListenOptions& listen,
                                             const std::function<const char*(const char*)>& environment);

// The options that differ, as `engine.max_keys` or `listen.http`: what needs a restart after a reload.
std::vector<std::string> Differences(const EngineOptions& before, const EngineOptions& after);
std::vector<std::string> Differences(const ListenOptions& before, const ListenOptions& after);

}  // namespace penstock::config
