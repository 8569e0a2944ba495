#include "http/request_writer.h"

#include <algorithm>

#include "base/bytes.h"
#include "http/characters.h"

namespace penstock::http {
namespace {

bool IsVisible(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  if (!IsToken(name) || !IsHeaderValue(value)) return false;
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
  return true;
}

bool AppendHead(std::string& out, const OutgoingRequest& request) {
  if (!IsToken(request.method) || !IsVisible(request.target)) return false;
  out += request.method;
  out += ' ';
  out += request.target;
  out += " HTTP/1.1\r\n";
  if (!AppendHeader(out, "Host", request.host)) return false;
  for (const Header& header : request.headers) {
    if (!AppendHeader(out, header.name, header.value)) return false;
  }
  if (!request.keep_alive) out += "Connection: close\r\n";
  const bool expects_body = request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (!request.body.empty() && !request.content_type.empty()) {
    if (!AppendHeader(out, "Content-Type", request.content_type)) return false;
  }
  if (!request.body.empty() || expects_body) {
    out += "Content-Length: ";
    AppendInt(out, static_cast<int64_t>(request.body.size()));
    out += "\r\n";
  }
  out += "\r\n";
  return true;
}

}  // namespace

bool AppendRequest(std::string& out, const OutgoingRequest& request) {
  const size_t before = out.size();
  if (!AppendHead(out, request)) {
    out.resize(before);
    return false;
  }
  out += request.body;
  return true;
}

}  // namespace penstock::http
