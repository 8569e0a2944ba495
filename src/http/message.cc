#include "http/message.h"

#include "base/ascii.h"

namespace penstock::http {
namespace {

std::string_view FindIn(std::span<const Header> headers, std::string_view name) {
  for (const Header& header : headers) {
    if (EqualsIgnoringCase(header.name, name)) return header.value;
  }
  return {};
}

}  // namespace

std::string_view Request::Find(std::string_view name) const { return FindIn(headers, name); }
std::string_view Response::Find(std::string_view name) const { return FindIn(headers, name); }

}  // namespace penstock::http
