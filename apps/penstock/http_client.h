// One HTTP request to a Penstock server, for the commands: blocking, with a time-out for all of it, plain TCP.
//
// Thread contract: plain functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/endpoint.h"

namespace penstock::app {

struct ServerUrl {
  Endpoint endpoint;
  std::string host;  // as written, for the Host header
};

// http://127.0.0.1:8080, 127.0.0.1:8080 or http://localhost (port 8080).
Result<ServerUrl> ParseServerUrl(std::string_view text);

struct HttpReply {
  int status = 0;
  std::string body;
};

struct HttpCall {
  std::string_view method = "POST";
  std::string_view target;
  std::string_view token;          // bearer; empty = none
  std::string_view if_match = {};  // empty = none
  std::string_view body;           // JSON
  int timeout_ms = 5'000;
  int cancel_fd =
      -1;  // what ends the call once it is readable: the connection is closed, the answer not waited for
};

// kUnavailable when the server cannot be reached or does not answer.
Result<HttpReply> Call(const ServerUrl& server, const HttpCall& call);

}  // namespace penstock::app
