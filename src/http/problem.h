// Errors as RFC 9457 tells them: application/problem+json.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "http/response_writer.h"

namespace penstock::http {

inline constexpr std::string_view kProblemType = "application/problem+json";
inline constexpr std::string_view kJsonType = "application/json";

// Problem types of draft-ietf-httpapi-ratelimit-headers.
inline constexpr std::string_view kQuotaExceeded =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
inline constexpr std::string_view kTemporaryReducedCapacity =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
inline constexpr std::string_view kAbnormalUsageDetected =
    "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

struct Problem {
  int status = 500;
  std::string_view type = {};                                // empty: about:blank, and the member is left out
  std::string_view title = {};                               // empty: the status' own phrase
  std::string_view detail = {};                              // empty: left out
  std::string_view instance = {};                            // empty: left out
  std::span<const std::string_view> violated_policies = {};  // empty: left out
  std::string_view members = {};  // more members, JSON as it is: "\"limit\":5,\"remaining\":0"; empty: none
};

// The JSON object alone.
void AppendProblem(std::string& out, const Problem& problem);

// A whole response, never cached.
void WriteProblem(std::string& out, const ReplyShape& shape, const Problem& problem);

// 405, with the methods that are taken: "GET, HEAD".
void WriteMethodNotAllowed(std::string& out, const ReplyShape& shape, std::string_view allow);

}  // namespace penstock::http
