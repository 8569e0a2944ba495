// Small steps from what a person wrote to what the server needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/settings.h"
#include "net/endpoint.h"

namespace penstock::server {

// The endpoint with its port, free until now. Refused: one that other machines can reach, while nobody needs a token.
Result<std::optional<Endpoint>> Reserve(const std::optional<Endpoint>& endpoint, bool needs_no_token,
                                        bool insecure);

// Event loops for `threads: N`, where 0 is one a core.
unsigned WorkerCount(int64_t asked);

// The last part of a path, for the ready line.
std::string_view BaseName(std::string_view path);

}  // namespace penstock::server
