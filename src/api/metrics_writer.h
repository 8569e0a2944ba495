// Lines of the Prometheus text format. Internal to the pages of metrics.
//
// Thread contract: plain functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace penstock::api {

using MetricLabel = std::pair<std::string_view, std::string_view>;

inline void AppendEscaped(std::string& out, std::string_view value) {
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

inline void Head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

inline void Series(std::string& out, std::string_view name, std::initializer_list<MetricLabel> labels) {
  out += name;
  char separator = '{';
  for (const auto& [label, value] : labels) {
    out += separator;
    out.append(label).append("=\"");
    AppendEscaped(out, value);
    out += '"';
    separator = ',';
  }
  if (labels.size() > 0) out += '}';
  out += ' ';
}

inline void Sample(std::string& out, std::string_view name, std::initializer_list<MetricLabel> labels,
                   uint64_t value) {
  Series(out, name, labels);
  AppendInt(out, static_cast<int64_t>(value));
  out += '\n';
}

inline void Single(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                   uint64_t value) {
  Head(out, name, type, help);
  Sample(out, name, {}, value);
}

}  // namespace penstock::api
