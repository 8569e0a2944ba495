// Writes requests, for the load generator, the command line and tests: the counterpart of response_writer.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "http/message.h"

namespace penstock::http {

struct OutgoingRequest {
  std::string_view method = "GET";
  std::string_view target = "/";
  std::string_view host = {};
  std::span<const Header> headers = {};  // beside Host, Content-Length and Content-Type
  std::string_view content_type = {};    // with a body only
  std::string_view body = {};
  bool keep_alive = true;
};

// Appends the request; false, and nothing appended, if something in it could not stand there (a line end in a header, a
// space in the target).
[[nodiscard]] bool AppendRequest(std::string& out, const OutgoingRequest& request);

}  // namespace penstock::http
