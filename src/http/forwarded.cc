#include "http/forwarded.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/bytes.h"

namespace penstock::http {
namespace {

constexpr int64_t kLargestPort = 65'535;

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool IsPort(std::string_view text) {
  const auto port = ParseInt(text);
  return port && text.front() != '-' && *port <= kLargestPort;
}

}  // namespace

bool IsTrusted(const IpAddress& address, std::span<const Cidr> trusted) {
  return std::any_of(trusted.begin(), trusted.end(),
                     [&](const Cidr& cidr) { return cidr.Contains(address); });
}

std::optional<IpAddress> ParseHop(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !IsPort(rest.substr(1)))) return std::nullopt;
    const auto address = ParseAddress(text.substr(1, end - 1));
    return text.substr(1, end - 1).find(':') == std::string_view::npos ? std::nullopt : address;
  }
  const size_t colon = text.find(':');
  const bool v4_with_port =
      colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos;
  if (!v4_with_port) return ParseAddress(text);
  if (!IsPort(text.substr(colon + 1))) return std::nullopt;
  return ParseAddress(text.substr(0, colon));
}

IpAddress ClientAddress(const IpAddress& peer, const Request& request, std::span<const Cidr> trusted) {
  IpAddress last = peer;
  if (request.Get(Known::kForwardedFor).empty() || !IsTrusted(peer, trusted)) return last;
  for (size_t i = request.headers.size(); i-- > 0;) {
    if (!EqualsIgnoringCase(request.headers[i].name, "x-forwarded-for")) continue;
    std::string_view rest = request.headers[i].value;
    while (!rest.empty()) {
      const size_t comma = rest.rfind(',');
      const std::string_view entry = Trimmed(comma == std::string_view::npos ? rest : rest.substr(comma + 1));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(0, comma);
      if (entry.empty()) continue;
      const auto hop = ParseHop(entry);
      if (!hop) return last;
      last = *hop;
      if (!IsTrusted(last, trusted)) return last;
    }
  }
  return last;
}

}  // namespace penstock::http
