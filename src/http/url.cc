#include "http/url.h"

#include <array>

#include "base/ascii.h"
#include "http/characters.h"

namespace penstock::http {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

// The byte that the %XX at text[at] stands for, or -1.
int DecodedAt(std::string_view text, size_t at) {
  if (at + 2 >= text.size()) return -1;
  const int high = HexValue(text[at + 1]);
  const int low = HexValue(text[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

constexpr std::array<bool, 256> Set(std::string_view extra) {
  std::array<bool, 256> set{};
  for (int c = 'a'; c <= 'z'; ++c) set[static_cast<size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) set[static_cast<size_t>(c)] = true;
  for (int c = '0'; c <= '9'; ++c) set[static_cast<size_t>(c)] = true;
  for (const char c : extra) set[static_cast<unsigned char>(c)] = true;
  return set;
}
constexpr auto kUnreserved = Set("-._~");
constexpr auto kBareInPath = Set("-._~!$&'()*+,;=:@/");  // pchar and the slash

void AppendPercent(std::string& out, unsigned char byte) {
  out += '%';
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 15];
}

// One segment ends: decides whether it stays, and where the next begins. `root` is where the path begins in `out`,
// `segment` where the last segment does; the slash before it is at segment - 1.
void CloseSegment(std::string& out, size_t root, size_t segment, bool last) {
  const std::string_view text = std::string_view(out).substr(segment);
  if (text == ".") {
    out.resize(segment);
  } else if (text == "..") {
    const size_t slash = segment - 1;
    const size_t parent = slash > root ? out.rfind('/', slash - 1) : root;
    out.resize(parent + 1);
  } else if (!text.empty() && !last) {
    out += '/';
  }
}

}  // namespace

Target SplitTarget(std::string_view target) {
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return {target, {}};
  return {target.substr(0, question), target.substr(question + 1)};
}

bool AppendDecoded(std::string& out, std::string_view text, Plus plus) {
  const size_t before = out.size();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int byte = DecodedAt(text, i);
      if (byte < 0) {
        out.resize(before);
        return false;
      }
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i] == '+' && plus == Plus::kIsSpace ? ' ' : text[i];
    }
  }
  return true;
}

bool AppendNormalPath(std::string& out, std::string_view path) {
  if (path.empty() || path.front() != '/') return false;
  const size_t root = out.size();
  out += '/';
  size_t segment = out.size();
  for (size_t i = 1; i < path.size(); ++i) {
    const auto byte = static_cast<unsigned char>(path[i]);
    if (byte == '/') {
      CloseSegment(out, root, segment, false);
      segment = out.size();
    } else if (byte == '%') {
      const int decoded = DecodedAt(path, i);
      if (decoded < 0) {
        out.resize(root);
        return false;
      }
      if (kUnreserved[static_cast<size_t>(decoded)]) {
        out += static_cast<char>(decoded);
      } else {
        AppendPercent(out, static_cast<unsigned char>(decoded));
      }
      i += 2;
    } else if (kBareInPath[byte]) {
      out += path[i];
    } else {
      AppendPercent(out, byte);
    }
  }
  CloseSegment(out, root, segment, true);
  return true;
}

std::optional<size_t> SplitPath(std::string_view path, std::span<std::string_view> segments) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  path.remove_prefix(1);
  for (size_t count = 0; count < segments.size(); ++count) {
    const size_t slash = path.find('/');
    segments[count] = path.substr(0, slash);
    if (slash == std::string_view::npos) return count + 1;
    path.remove_prefix(slash + 1);
  }
  return std::nullopt;
}

bool NextQueryPair(std::string_view& rest, QueryPair& pair) {
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (text.empty()) continue;
    const size_t equals = text.find('=');
    pair.name = text.substr(0, equals);
    pair.value = equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
    return true;
  }
  return false;
}

Result<std::vector<QueryParameter>> ParseQuery(std::string_view query) {
  std::vector<QueryParameter> parameters;
  QueryPair pair;
  while (NextQueryPair(query, pair)) {
    if (parameters.size() == kMaxQueryParameters) {
      return Fail(ErrorKind::kTooLarge,
                  "the query has more than " + std::to_string(kMaxQueryParameters) + " parameters");
    }
    QueryParameter& parameter = parameters.emplace_back();
    if (!AppendDecoded(parameter.name, pair.name, Plus::kIsSpace) ||
        !AppendDecoded(parameter.value, pair.value, Plus::kIsSpace)) {
      return Invalid("the query has a % that is not followed by two hexadecimal digits");
    }
  }
  return parameters;
}

}  // namespace penstock::http
