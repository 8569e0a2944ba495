// Who really asks, behind proxies that say so.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/address.h"
#include "http/message.h"

namespace penstock::http {

bool IsTrusted(const IpAddress& address, std::span<const Cidr> trusted);

// An address as proxies write it: bare, with a port, or IPv6 in brackets with or without one.
std::optional<IpAddress> ParseHop(std::string_view text);

// The rightmost hop that is not a trusted proxy: `peer` itself unless it is trusted, else the X-Forwarded-For lines from
// their right end, past trusted addresses. What a client wrote further left is never believed. Where an
// entry is no address, or only trusted ones are left, the last address that was read counts.
IpAddress ClientAddress(const IpAddress& peer, const Request& request, std::span<const Cidr> trusted);

}  // namespace penstock::http
