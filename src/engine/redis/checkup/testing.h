// Replies made by hand, for tests.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/value.h"

namespace penstock::checkup {

inline Value Bulk(std::string text) { return {resp::ReplyType::kBulk, 0, std::move(text), {}}; }
inline Value Failure(std::string text) { return {resp::ReplyType::kError, 0, std::move(text), {}}; }
inline Value Whole(int64_t number) { return {resp::ReplyType::kInteger, number, {}, {}}; }
inline Value List(std::vector<Value> items) { return {resp::ReplyType::kArray, 0, {}, std::move(items)}; }
inline Value Pairs(std::initializer_list<std::pair<const char*, const char*>> pairs) {
  std::vector<Value> items;
  for (const auto& [name, value] : pairs) {
    items.push_back(Bulk(name));
    items.push_back(Bulk(value));
  }
  return List(std::move(items));
}

// What a failed expectation shows.
inline std::string Show(const Finding& finding) {
  std::string out(ToString(finding.status));
  out += " " + finding.name + ": " + finding.figure;
  for (const std::string& detail : finding.details) out += "\n  " + detail;
  return out;
}

}  // namespace penstock::checkup
