// TLS on the client's side: who is believed, what we show, and that the peer is who it should be. Internal to net.
//
// The files of a target are read when a connection needs them first, and again when they changed; what is read is kept
// for the next connection.
//
// Thread contract: one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "base/dialer.h"
#include "base/result.h"
#include "net/tls.h"

namespace penstock::net {

class TlsClient {
 public:
  Result<std::unique_ptr<TlsStream>> NewStream(int fd, const DialTarget& target);

 private:
  struct Kept {
    std::shared_ptr<ssl_ctx_st> context;
    std::string stamp;  // of the files when they were read
  };
  static constexpr size_t kMaxKept = 16;

  Result<std::shared_ptr<ssl_ctx_st>> Context(const DialTarget& target);

  std::map<std::tuple<std::string, std::string, std::string>, Kept> kept_;  // by CA, certificate and key
};

}  // namespace penstock::net
