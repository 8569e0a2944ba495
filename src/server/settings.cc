#include "server/settings.h"

#include <algorithm>
#include <thread>

namespace penstock::server {
namespace {

// Each costs a thread and its own listening sockets. As the option `threads` says; a machine may have more cores.
constexpr int64_t kMaxWorkers = 256;

}  // namespace

// An open port without a secret is a service for whoever finds it: that must be said, not happen.
Result<std::optional<Endpoint>> Reserve(const std::optional<Endpoint>& endpoint, bool needs_no_token,
                                        bool insecure) {
  if (!endpoint) return std::nullopt;
  if (!endpoint->IsLoopback() && needs_no_token && !insecure) {
    return Invalid(
        "refusing to listen on " + endpoint->Text() +
        ", which other machines can reach, without a token: set listen.token_file or PENSTOCK_TOKEN, or "
        "say --insecure");
  }
  Result<Endpoint> reserved = net::ReserveEndpoint(*endpoint);
  if (!reserved) return tl::unexpected(std::move(reserved.error()));
  return *reserved;
}

unsigned WorkerCount(int64_t asked) {
  if (asked <= 0) asked = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::min(asked, kMaxWorkers));
}

std::string_view BaseName(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

}  // namespace penstock::server
