#include "base/endpoint.h"

#include <optional>
#include <utility>

#include "base/bytes.h"

namespace penstock {

bool Endpoint::IsLoopback() const {
  static const Cidr v4 = *Cidr::Parse("127.0.0.0/8");
  static const Cidr v6 = *Cidr::Parse("::1/128");
  return v4.Contains(address) || v6.Contains(address);
}

std::string Endpoint::Text() const {
  std::string text;
  if (!address.is_v4()) text += '[';
  address.AppendText(text);
  if (!address.is_v4()) text += ']';
  text += ':';
  AppendInt(text, port);
  return text;
}

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    std::string message = "\"";
    message.append(text).append("\" is no ADDRESS:PORT: ").append(why);
    return Invalid(std::move(message));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("a port is missing, as in 127.0.0.1:8080");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const std::optional<int64_t> port = ParseInt(digits);
  if (!port || *port < 0 || *port > 65'535 || digits.size() > 5 || digits.front() == '-')
    return wrong("the port must be a number from 0 to 65535");
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host == "*") host = "0.0.0.0";
  if (host == "localhost") host = "127.0.0.1";
  const std::optional<IpAddress> address = ParseAddress(host);
  if (!address) return wrong("the host must be an IP address, localhost or *");
  if (address->is_v4() == brackets) return wrong("an IPv6 address, and only that, stands in brackets");
  return Endpoint{*address, static_cast<uint16_t>(*port)};
}

}  // namespace penstock
