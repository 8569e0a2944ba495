#include "http/message.h"

namespace penstock::http {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string_view FindIn(std::span<const Header> headers, std::string_view name) {
  for (const Header& header : headers) {
    if (EqualsIgnoreCase(header.name, name)) return header.value;
  }
  return {};
}

}  // namespace

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && Lower(a[i]) != Lower(b[i])) return false;
  }
  return true;
}

std::string_view Request::Find(std::string_view name) const { return FindIn(headers, name); }
std::string_view Response::Find(std::string_view name) const { return FindIn(headers, name); }

std::string_view MethodText(Method method) {
  constexpr std::string_view kTexts[] = {"GET",   "HEAD",    "POST",  "PUT",     "DELETE",
                                         "PATCH", "OPTIONS", "TRACE", "CONNECT", ""};
  return kTexts[static_cast<size_t>(method)];
}

}  // namespace penstock::http
