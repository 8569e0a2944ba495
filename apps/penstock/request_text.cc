#include "request_text.h"

#include "base/json_text.h"

namespace penstock::app {
namespace {

struct Attribute {
  std::string_view name;
  std::string_view value;
};

Result<Attribute> Split(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Invalid("'" + std::string(text) + "' is no attribute: write it as name=value");
  }
  return Attribute{text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

Result<void> AppendAttributes(std::string& json, std::span<const std::string> attributes) {
  json += '{';
  bool first = true;
  for (const std::string& text : attributes) {
    const Result<Attribute> attribute = Split(text);
    if (!attribute) return tl::unexpected(attribute.error());
    if (!first) json += ',';
    first = false;
    AppendJsonString(json, attribute->name);
    json += ':';
    AppendJsonString(json, attribute->value);
  }
  json += '}';
  return {};
}

void AppendEscaped(std::string& target, std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_';
    if (plain) {
      target += c;
    } else {
      target += '%';
      target += kDigits[byte >> 4];
      target += kDigits[byte & 15];
    }
  }
}

void AppendQuery(std::string& target, std::string_view name, std::string_view value) {
  target += target.find('?') == std::string::npos ? '?' : '&';
  AppendEscaped(target, name);
  target += '=';
  AppendEscaped(target, value);
}

Result<void> AppendQuery(std::string& target, std::span<const std::string> attributes) {
  for (const std::string& text : attributes) {
    const Result<Attribute> attribute = Split(text);
    if (!attribute) return tl::unexpected(attribute.error());
    AppendQuery(target, attribute->name, attribute->value);
  }
  return {};
}

}  // namespace penstock::app
