// The one table of everything that a policy file can say: name, type, default, unit, meaning, bounds and where it
// stands. Parser, error messages, the reference page and the sample file all come from it, so none can lag behind.
//
// Thread contract: constants.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace penstock::policy {

enum class Section : uint8_t {
  kFile,
  kEngine,
  kSnapshot,
  kListen,
  kTls,
  kDomain,
  kLimit,
  kOverride,
  kMask,
  kMatcher,
};
inline constexpr size_t kSectionCount = 10;

enum class ValueType : uint8_t {
  kText,
  kName,       // IsValidName
  kCount,      // whole number, underscores allowed
  kAutoCount,  // `auto` or a whole number
  kRate,
  kDuration,
  kFlag,      // true or false
  kChoice,    // one of `choices`
  kTextList,  // a text or a list of them
  kAddress,   // ADDRESS:PORT, or off
  kMapping,   // `child` says what stands inside
  kList,      // a list of `child`
  kDomains,   // a mapping from names to domains
  kKey,       // a list of attributes, each alone or with masks
  kMatch,     // a mapping from attributes to matchers
  kMatcher,   // one matcher
};

struct Option {
  Section section;
  std::string_view name;
  ValueType type;
  std::string_view fallback;  // as a file would say it; empty = none
  std::string_view unit;
  std::string_view meaning;
  // Bounds of a count, or of a duration in microseconds; not looked at when both are 0.
  int64_t min = 0;
  int64_t max = 0;
  std::string_view choices = {};  // "a|b|c"
  bool required = false;
  Section child = Section::kFile;
};

std::span<const Option> AllOptions();
// Of one section, in the table's order.
std::vector<const Option*> OptionsOf(Section section);
// Null when the section has no such option.
const Option* FindOption(Section section, std::string_view name);

// "engine", "a limit", …: where the section stands, for messages and headings.
std::string_view SectionName(Section section);
std::string_view TypeName(ValueType type);
std::vector<std::string_view> Choices(const Option& option);

}  // namespace penstock::policy
