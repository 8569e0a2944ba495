// Compiled matches: the conditions of a limit or an override, made ready for the decision path.
//
// Thread contract: immutable once built; Holds is const and may run on any thread at once (RE2 locks inside).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "policy/definition.h"

namespace re2 {
class RE2;
}

namespace penstock::policy {

inline constexpr size_t kMaxRegexBytes = 4'096;
inline constexpr size_t kMaxMatcherDepth = 8;

// A pattern with * for any run of bytes, the empty one too. Never more than |pattern| * |text| steps.
bool GlobMatches(std::string_view pattern, std::string_view text);

// What one attribute must satisfy. Absent values are told apart by a null data().
class CompiledMatcher {
 public:
  CompiledMatcher();
  ~CompiledMatcher();
  CompiledMatcher(CompiledMatcher&&) noexcept;
  CompiledMatcher& operator=(CompiledMatcher&&) noexcept;

  // Fails with what is wrong with a regular expression or a network. `line` is then the place.
  static Result<CompiledMatcher> Compile(const Matcher& matcher, int& line);

  bool Holds(std::string_view value) const { return value.data() != nullptr ? HoldsPresent(value) : absent_; }
  // The values of a plain equality, or empty when it is none; what an index can find by hash.
  std::span<const std::string> exact_values() const { return exact_; }

 private:
  bool HoldsPresent(std::string_view value) const;

  // Invariant: absent_ is the answer for an absent attribute. exact_ is sorted, used with kExact only.
  MatcherKind kind_ = MatcherKind::kExact;
  bool absent_ = false;
  std::vector<std::string> exact_;
  std::string glob_;
  std::unique_ptr<re2::RE2> regex_;
  std::vector<Cidr> networks_;
  std::vector<CompiledMatcher> children_;
};

// The canonical text of a match: equal for matches that differ only in the order of their parts, and never equal for
// two that say something else. Part of the identity of some overrides, and what lint compares.
std::string MatchText(std::span<const Condition> match);

// For people: user "partner-*", method one of "POST", "PUT".
std::string DescribeMatcher(const Matcher& matcher);

}  // namespace penstock::policy
