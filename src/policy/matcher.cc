#include "policy/matcher.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/bytes.h"
#include "policy/diagnostics.h"

namespace penstock::policy {
namespace {

// A regular expression's program and its caches may take this much memory.
constexpr int64_t kMaxRegexMemory = 1 << 20;

// Bytes, not characters: a value that is no valid UTF-8 must not slip past `.*`, nor one with a line break.
RE2::Options RegexOptions() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_dot_nl(true);
  options.set_max_mem(kMaxRegexMemory);
  return options;
}

// A list whose members are all plain values is one equality.
bool AllExact(const Matcher& matcher) {
  return std::all_of(matcher.children.begin(), matcher.children.end(),
                     [](const Matcher& child) { return child.kind == MatcherKind::kExact; });
}
bool AllCidr(const Matcher& matcher) {
  return std::all_of(matcher.children.begin(), matcher.children.end(),
                     [](const Matcher& child) { return child.kind == MatcherKind::kCidr; });
}

Result<Cidr> CompileCidr(const std::string& text) {
  const auto network = Cidr::Parse(text);
  if (!network) return Invalid(Quoted(text) + " is no network (e.g. 10.0.0.0/8 or 2001:db8::/32)");
  return *network;
}

void AppendMatcherText(std::string& out, const Matcher& matcher) {
  constexpr std::string_view kLetters = "egrcoan";  // by MatcherKind
  out += kLetters[static_cast<size_t>(matcher.kind)];
  AppendSized(out, matcher.text);
  // The order of alternatives says nothing.
  std::vector<std::string> children;
  for (const Matcher& child : matcher.children) AppendMatcherText(children.emplace_back(), child);
  std::sort(children.begin(), children.end());
  AppendInt(out, static_cast<int64_t>(children.size()));
  out += '(';
  for (const std::string& child : children) out += child;
  out += ')';
}

std::string Joined(const std::vector<Matcher>& children, std::string_view separator) {
  std::string out;
  for (const Matcher& child : children) {
    if (!out.empty()) out += separator;
    out += DescribeMatcher(child);
  }
  return out;
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // the last * seen, and where in text its run ends now
  size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

CompiledMatcher::CompiledMatcher() = default;
CompiledMatcher::~CompiledMatcher() = default;
CompiledMatcher::CompiledMatcher(CompiledMatcher&&) noexcept = default;
CompiledMatcher& CompiledMatcher::operator=(CompiledMatcher&&) noexcept = default;

Result<CompiledMatcher> CompiledMatcher::Compile(const Matcher& matcher, int& line) {
  CompiledMatcher out;
  out.kind_ = matcher.kind;
  line = matcher.line;
  switch (matcher.kind) {
    case MatcherKind::kExact:
      out.exact_.push_back(matcher.text);
      return out;
    case MatcherKind::kGlob:
      out.glob_ = matcher.text;
      return out;
    case MatcherKind::kRegex: {
      if (matcher.text.size() > kMaxRegexBytes)
        return Invalid("a regular expression of more than 4096 bytes");
      out.regex_ = std::make_unique<RE2>(matcher.text, RegexOptions());
      if (!out.regex_->ok()) {
        return Invalid("the regular expression " + Quoted(matcher.text) +
                       " is wrong: " + out.regex_->error());
      }
      return out;
    }
    case MatcherKind::kCidr: {
      const auto network = CompileCidr(matcher.text);
      if (!network) return tl::unexpected(network.error());
      out.networks_.push_back(*network);
      return out;
    }
    case MatcherKind::kAny:
    case MatcherKind::kAll:
    case MatcherKind::kNot:
      break;
  }
  for (const Matcher& child : matcher.children) {
    auto compiled = Compile(child, line);
    if (!compiled) return compiled;
    out.children_.push_back(std::move(*compiled));
  }
  line = matcher.line;
  const auto absent = [](const CompiledMatcher& child) { return child.absent_; };
  switch (matcher.kind) {
    case MatcherKind::kNot:
      out.absent_ = true;
      break;
    case MatcherKind::kAll:
      out.absent_ = std::all_of(out.children_.begin(), out.children_.end(), absent);
      break;
    default:
      out.absent_ = std::any_of(out.children_.begin(), out.children_.end(), absent);
      break;
  }
  if (matcher.kind == MatcherKind::kAny && AllExact(matcher)) {
    out.kind_ = MatcherKind::kExact;
    for (CompiledMatcher& child : out.children_) out.exact_.push_back(std::move(child.exact_[0]));
    std::sort(out.exact_.begin(), out.exact_.end());
    out.exact_.erase(std::unique(out.exact_.begin(), out.exact_.end()), out.exact_.end());
    out.children_.clear();
  } else if (matcher.kind == MatcherKind::kAny && AllCidr(matcher)) {
    out.kind_ = MatcherKind::kCidr;
    for (const CompiledMatcher& child : out.children_) out.networks_.push_back(child.networks_[0]);
    out.children_.clear();
  }
  return out;
}

bool CompiledMatcher::HoldsPresent(std::string_view value) const {
  const auto holds = [value](const CompiledMatcher& child) { return child.HoldsPresent(value); };
  switch (kind_) {
    case MatcherKind::kExact:
      return exact_.size() == 1 ? exact_[0] == value
                                : std::binary_search(exact_.begin(), exact_.end(), value);
    case MatcherKind::kGlob:
      return GlobMatches(glob_, value);
    case MatcherKind::kRegex:
      return RE2::FullMatch({value.data(), value.size()}, *regex_);
    case MatcherKind::kCidr: {
      const auto address = ParseAddress(value);
      if (!address) return false;
      return std::any_of(networks_.begin(), networks_.end(),
                         [&](const Cidr& network) { return network.Contains(*address); });
    }
    case MatcherKind::kAny:
      return std::any_of(children_.begin(), children_.end(), holds);
    case MatcherKind::kAll:
      return std::all_of(children_.begin(), children_.end(), holds);
    case MatcherKind::kNot:
      return !children_[0].HoldsPresent(value);
  }
  return false;
}

std::string MatchText(std::span<const Condition> match) {
  std::vector<std::string> parts;
  for (const Condition& condition : match) {
    std::string& part = parts.emplace_back();
    AppendSized(part, condition.attribute);
    AppendMatcherText(part, condition.matcher);
  }
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

std::string DescribeMatcher(const Matcher& matcher) {
  switch (matcher.kind) {
    case MatcherKind::kExact:
      return Quoted(matcher.text);
    case MatcherKind::kGlob:
      return "like " + Quoted(matcher.text);
    case MatcherKind::kRegex:
      return "matching /" + matcher.text + "/ in full";
    case MatcherKind::kCidr:
      return "in " + matcher.text;
    case MatcherKind::kAny:
      return "one of " + Joined(matcher.children, ", ");
    case MatcherKind::kAll:
      return Joined(matcher.children, " and ");
    case MatcherKind::kNot:
      return "not (" + Joined(matcher.children, "") + ")";
  }
  return {};
}

}  // namespace penstock::policy
