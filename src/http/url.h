// Targets, paths and queries: taken apart, decoded, normalised. Pure functions over views; what they write goes
// into a string of the caller's, so a loop that reuses it allocates nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::http {

struct Target {
  std::string_view path;
  std::string_view query;  // behind the first question mark
};
Target SplitTarget(std::string_view target);

// Appends `text` with every %XX decoded, and + as a space where asked (forms and queries). False, and `out` as it was,
// if a % is not followed by two hexadecimal digits.
enum class Plus : unsigned char { kStays, kIsSpace };
[[nodiscard]] bool AppendDecoded(std::string& out, std::string_view text, Plus plus = Plus::kStays);

// Appends the one spelling of a path that all its equal spellings share: %XX of unreserved characters decoded, other
// %XX in upper case, characters that may not stand bare encoded, "." and ".." resolved (never above the root), runs
// of slashes made one (as nginx does, so that //login does not escape a limit on /login). A trailing slash stays.
// False, and `out` as it was, if a % is malformed or the path does not begin with a slash.
[[nodiscard]] bool AppendNormalPath(std::string& out, std::string_view path);

// The segments of a path, without its leading slash, not decoded: "/v1/limits" gives "v1" and "limits", "/v1/" gives
// "v1" and "", "/" gives "". Nothing if there are more than fit or the path does not begin with a slash.
std::optional<size_t> SplitPath(std::string_view path, std::span<std::string_view> segments);

// One name=value of a query as it stands there, not decoded; takes it from the front of `rest`. False at the end.
// Empty pairs ("a=1&&b=2") are passed over.
struct QueryPair {
  std::string_view name;
  std::string_view value;
};
bool NextQueryPair(std::string_view& rest, QueryPair& pair);

struct QueryParameter {
  std::string name;
  std::string value;
};
inline constexpr size_t kMaxQueryParameters = 100;

// All pairs, decoded, in order. Errors: a malformed %, more than kMaxQueryParameters.
Result<std::vector<QueryParameter>> ParseQuery(std::string_view query);

}  // namespace penstock::http
