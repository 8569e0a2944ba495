#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/address.h"
#include "base/bytes.h"
#include "engine/redis/options.h"

namespace penstock::engine::redis {
namespace {

constexpr size_t kMaxUrlBytes = 4'096;
constexpr size_t kMaxSeeds = 64;
constexpr size_t kLongestScheme = 20;  // that an error repeats
constexpr int64_t kMaxDatabase = 1'000'000;
constexpr uint16_t kServerPort = 6'379;
constexpr uint16_t kSentinelPort = 26'379;

struct Scheme {
  std::string_view text;
  TopologyKind topology;
  bool tls;
  bool unix_socket;
};
constexpr std::array kSchemes = {
    Scheme{"redis://", TopologyKind::kSingle, false, false},
    Scheme{"rediss://", TopologyKind::kSingle, true, false},
    Scheme{"redis+sentinel://", TopologyKind::kSentinel, false, false},
    Scheme{"rediss+sentinel://", TopologyKind::kSentinel, true, false},
    Scheme{"redis+cluster://", TopologyKind::kCluster, false, false},
    Scheme{"rediss+cluster://", TopologyKind::kCluster, true, false},
    Scheme{"valkey://", TopologyKind::kSingle, false, false},
    Scheme{"valkeys://", TopologyKind::kSingle, true, false},
    Scheme{"valkey+sentinel://", TopologyKind::kSentinel, false, false},
    Scheme{"valkeys+sentinel://", TopologyKind::kSentinel, true, false},
    Scheme{"valkey+cluster://", TopologyKind::kCluster, false, false},
    Scheme{"valkeys+cluster://", TopologyKind::kCluster, true, false},
    Scheme{"unix://", TopologyKind::kSingle, false, true},
};

// Of the text only what holds no secret is ever repeated in an error.
tl::unexpected<Error> Refuse(const std::string& what) { return Invalid("engine URL: " + what); }

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string_view Cut(std::string_view& text, size_t length) {
  const std::string_view front = text.substr(0, length);
  text.remove_prefix(std::min(length, text.size()));
  return front;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> Decode(std::string_view text, std::string_view what) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      return Refuse("a '%' in the " + std::string(what) + " is not followed by two hex digits");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

Result<int64_t> Database(std::string_view text) {
  const std::optional<int64_t> number = ParseInt(text);
  if (!number || *number < 0 || *number > kMaxDatabase) {
    return Refuse("the database " + Quoted(text) + " is no number from 0 to " + std::to_string(kMaxDatabase));
  }
  return *number;
}

Result<DialTarget> Host(std::string_view text, uint16_t default_port) {
  DialTarget out;
  out.port = default_port;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Refuse("the host " + Quoted(text) + " lacks its ']'");
    out.host = text.substr(1, end - 1);
    const std::optional<IpAddress> address = ParseAddress(out.host);
    if (!address || out.host.find(':') == std::string::npos) {
      return Refuse("the host " + Quoted(text.substr(0, end + 1)) + " is no IPv6 address");
    }
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') {
      return Refuse("after the host [" + out.host + "] there is more than a port");
    }
    has_port = !text.empty();
    port = has_port ? text.substr(1) : text;
  } else {
    const size_t colon = text.find(':');
    if (colon != text.rfind(':')) {
      return Refuse("a host has several colons (an IPv6 address stands in brackets: [::1])");
    }
    has_port = colon != std::string_view::npos;
    out.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    const bool plain = std::all_of(out.host.begin(), out.host.end(), [](unsigned char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
             c == '-' || c == '_';
    });
    if (out.host.empty()) return Refuse("a host is missing");
    if (!plain) return Refuse("the host " + Quoted(out.host) + " has characters that no host name has");
  }
  if (!has_port) return out;
  const std::optional<int64_t> number = ParseInt(port);
  if (!number || *number < 1 || *number > 65'535) {
    // What stands there may be a password whose host was forgotten.
    return Refuse("the port of " + Quoted(out.host) + " is no number from 1 to 65535");
  }
  out.port = static_cast<uint16_t>(*number);
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view url) : rest_(url) {}

  Result<Options> Parse() {
    if (rest_.size() > kMaxUrlBytes) return Refuse("longer than " + std::to_string(kMaxUrlBytes) + " bytes");
    for (const auto step : {&Parser::TakeScheme, &Parser::TakeQuery, &Parser::TakeUser, &Parser::TakePlaces,
                            &Parser::TakePath, &Parser::ApplyQuery}) {
      if (Result<void> done = (this->*step)(); !done) return tl::unexpected(done.error());
    }
    return std::move(out_);
  }

 private:
  Result<void> TakeScheme() {
    const auto found = std::find_if(kSchemes.begin(), kSchemes.end(),
                                    [this](const Scheme& scheme) { return rest_.starts_with(scheme.text); });
    if (found == kSchemes.end()) {
      const size_t end = rest_.find("://");
      if (end == std::string_view::npos || end > kLongestScheme)
        return Refuse("it begins with no scheme such as redis://");
      return Refuse("the scheme " + Quoted(rest_.substr(0, end)) +
                    " is none of redis, rediss, redis+sentinel, redis+cluster, unix (nor rediss+…)");
    }
    scheme_ = &*found;
    out_.topology = found->topology;
    rest_.remove_prefix(found->text.size());
    return {};
  }

  Result<void> TakeQuery() {
    if (rest_.find('#') != std::string_view::npos) {
      return Refuse("a '#' must be written as %23");
    }
    const size_t mark = rest_.find('?');
    if (mark == std::string_view::npos) return {};
    std::string_view query = rest_.substr(mark + 1);
    rest_ = rest_.substr(0, mark);
    while (!query.empty()) {
      std::string_view pair = Cut(query, query.find('&'));
      if (!query.empty()) query.remove_prefix(1);
      const std::string_view name = Cut(pair, pair.find('='));
      if (pair.empty()) return Refuse("the option " + Quoted(name) + " has no value");
      auto* const option = std::find_if(options_.begin(), options_.end(),
                                        [name](const auto& known) { return known.first == name; });
      if (option == options_.end()) return Refuse(UnknownOption(name));
      if (option->second) return Refuse("the option " + Quoted(name) + " stands there twice");
      Result<std::string> value = Decode(pair.substr(1), name);
      if (!value) return tl::unexpected(value.error());
      option->second = std::move(*value);
    }
    return {};
  }

  std::string UnknownOption(std::string_view name) const {
    std::array<std::string_view, 7> names;
    std::transform(options_.begin(), options_.end(), names.begin(),
                   [](const auto& known) { return known.first; });
    const std::string_view near = Nearest(name, names.data(), names.size());
    return "unknown option " + Quoted(name) +
           (near.empty() ? " (there are ca, cert, key, name, db, sentinel_user, sentinel_password)"
                         : " (did you mean " + std::string(near) + "?)");
  }

  Result<void> TakeUser() {
    const size_t authority = scheme_->unix_socket ? rest_.size() : std::min(rest_.find('/'), rest_.size());
    const size_t at = rest_.substr(0, authority).rfind('@');
    if (at == std::string_view::npos) {
      // A '/' in a password cuts the authority short of its '@'.
      if (!scheme_->unix_socket && rest_.find('@') != std::string_view::npos) {
        return Refuse("a '/' in a user or password must be written as %2F");
      }
      return {};
    }
    std::string_view info = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    Result<std::string> user = Decode(Cut(info, info.find(':')), "user");
    if (!user) return tl::unexpected(user.error());
    if (info.size() < 2) return Refuse("there is no password after the user (user:password@host)");
    Result<std::string> password = Decode(info.substr(1), "password");
    if (!password) return tl::unexpected(password.error());
    out_.user = std::move(*user);
    out_.password = std::move(*password);
    return {};
  }

  Result<void> TakePlaces() {
    if (scheme_->unix_socket) {
      Result<std::string> path = Decode(std::exchange(rest_, {}), "path");
      if (!path) return tl::unexpected(path.error());
      if (!path->starts_with('/') || path->size() < 2) {
        return Refuse("a socket is named by its whole path: unix:///run/redis.sock");
      }
      out_.seeds.emplace_back().path = std::move(*path);
      return {};
    }
    const uint16_t port = out_.topology == TopologyKind::kSentinel ? kSentinelPort : kServerPort;
    std::string_view hosts = Cut(rest_, rest_.find('/'));
    do {
      const size_t comma = hosts.find(',');
      Result<DialTarget> host = Host(Cut(hosts, comma), port);
      if (!host) return tl::unexpected(host.error());
      host->tls = scheme_->tls;
      out_.seeds.push_back(std::move(*host));
      if (comma == std::string_view::npos) break;
      hosts.remove_prefix(1);
    } while (out_.seeds.size() <= kMaxSeeds);
    if (out_.seeds.size() > kMaxSeeds) return Refuse("more than " + std::to_string(kMaxSeeds) + " hosts");
    if (out_.topology == TopologyKind::kSingle && out_.seeds.size() > 1) {
      return Refuse("several hosts need redis+sentinel:// or redis+cluster://");
    }
    return {};
  }

  // /database, or /master[/database]
  Result<void> TakePath() {
    if (rest_.starts_with('/')) rest_.remove_prefix(1);
    if (out_.topology == TopologyKind::kSentinel) {
      Result<std::string> name = Decode(Cut(rest_, rest_.find('/')), "master's name");
      if (!name) return tl::unexpected(name.error());
      if (name->empty()) return Refuse("the master's name is missing (redis+sentinel://host/name)");
      out_.master_name = std::move(*name);
      if (rest_.starts_with('/')) rest_.remove_prefix(1);
    }
    if (rest_.empty()) return {};
    return SetDatabase(rest_);
  }

  Result<void> SetDatabase(std::string_view text) {
    const Result<int64_t> number = Database(text);
    if (!number) return tl::unexpected(number.error());
    if (out_.topology == TopologyKind::kCluster && *number != 0)
      return Refuse("a cluster has no database but 0");
    out_.database = *number;
    return {};
  }

  Result<void> ApplyQuery() {
    const auto& [ca, cert, key, name, db, sentinel_user, sentinel_password] = options_;
    if (db.second) {
      if (!rest_.empty()) return Refuse("the database stands both in the path and in the option db");
      if (Result<void> set = SetDatabase(*db.second); !set) return set;
    }
    for (const auto* tls : {&ca, &cert, &key, &name}) {
      if (tls->second && !scheme_->tls) {
        return Refuse("the option " + Quoted(tls->first) + " needs TLS (rediss://)");
      }
    }
    if (key.second && !cert.second) return Refuse("the option 'key' needs 'cert'");
    for (const auto* sentinel : {&sentinel_user, &sentinel_password}) {
      if (sentinel->second && out_.topology != TopologyKind::kSentinel) {
        return Refuse("the option " + Quoted(sentinel->first) + " needs redis+sentinel://");
      }
    }
    if (sentinel_user.second && !sentinel_password.second) {
      return Refuse("the option 'sentinel_user' needs 'sentinel_password'");
    }
    out_.sentinel_user = sentinel_user.second.value_or("");
    out_.sentinel_password = sentinel_password.second.value_or("");
    for (DialTarget& seed : out_.seeds) {
      seed.tls_ca = ca.second.value_or("");
      seed.tls_cert = cert.second.value_or("");
      seed.tls_key = key.second.value_or("");
      seed.tls_name = name.second.value_or("");
    }
    return {};
  }

  std::string_view rest_;  // of the URL, not yet taken
  const Scheme* scheme_ = nullptr;
  std::array<std::pair<std::string_view, std::optional<std::string>>, 7> options_{
      {{"ca", {}},
       {"cert", {}},
       {"key", {}},
       {"name", {}},
       {"db", {}},
       {"sentinel_user", {}},
       {"sentinel_password", {}}}};
  Options out_;
};

}  // namespace

Result<Options> ParseUrl(std::string_view url) { return Parser(url).Parse(); }

}  // namespace penstock::engine::redis
