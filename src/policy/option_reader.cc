#include "policy/option_reader.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

#include "base/bytes.h"
#include "policy/definition.h"

namespace penstock::policy {
namespace {

constexpr size_t kMaxTexts = 100'000;

std::string Join(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) {
    if (!out.empty()) out += ", ";
    out += word;
  }
  return out;
}

}  // namespace

std::string Suggest(std::string_view word, const std::vector<std::string_view>& words) {
  const std::string_view near = Nearest(word, words.data(), words.size());
  if (!near.empty()) return " (did you mean " + std::string(near) + "?)";
  return " (one of " + Join(words) + ")";
}

std::vector<std::pair<YamlValue, YamlValue>> ReadMapping(const YamlValue& value, std::string_view what,
                                                         const Reporter& reporter) {
  std::vector<std::pair<YamlValue, YamlValue>> out;
  if (!value.is_mapping()) {
    reporter.Error(value.line(), std::string(what) + " is a mapping, not " + Describe(value));
    return out;
  }
  const auto children = value.children();
  std::unordered_map<std::string_view, int> seen;
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    const YamlValue& key = children[i];
    if (!key.is_scalar()) {
      reporter.Error(key.line(), "a key is a text, not " + Describe(key));
      continue;
    }
    const auto [first, added] = seen.emplace(key.text(), key.line());
    if (!added) {
      reporter.Error(key.line(),
                     Quoted(key.text()) + " stands twice, first in line " + std::to_string(first->second));
      continue;
    }
    out.emplace_back(key, children[i + 1]);
  }
  return out;
}

std::optional<std::string> ReadText(const YamlValue& value, std::string_view what, const Reporter& reporter) {
  if (value.is_scalar()) return std::string(value.text());
  reporter.Error(value.line(), std::string(what) + " is a text, not " + Describe(value));
  return std::nullopt;
}

std::vector<std::pair<std::string, int>> ReadTexts(const YamlValue& value, std::string_view what,
                                                   const Reporter& reporter) {
  std::vector<std::pair<std::string, int>> out;
  if (value.is_scalar()) {
    out.emplace_back(value.text(), value.line());
    return out;
  }
  if (!value.is_sequence()) {
    reporter.Error(value.line(), std::string(what) + " is a text or a list of texts, not " + Describe(value));
    return out;
  }
  const auto children = value.children();
  if (children.empty()) reporter.Error(value.line(), std::string(what) + " is an empty list");
  if (children.size() > kMaxTexts) {
    reporter.Error(value.line(), std::string(what) + " is a list of more than " + std::to_string(kMaxTexts));
    return out;
  }
  for (const YamlValue& child : children) {
    auto text = ReadText(child, what, reporter);
    if (!text) return {};
    out.emplace_back(std::move(*text), child.line());
  }
  return out;
}

OptionReader::OptionReader(Section section, const std::optional<YamlValue>& value, const Reporter& reporter,
                           std::string_view known_elsewhere)
    : section_(section), reporter_(reporter) {
  if (!value) return;
  line_ = value->line();
  const size_t errors_before = reporter.diagnostics.total();
  entries_ = ReadMapping(*value, SectionName(section), reporter);
  std::vector<std::string_view> known;
  for (const Option* option : OptionsOf(section)) known.push_back(option->name);
  for (const auto& [key, unused] : entries_) {
    if (FindOption(section, key.text()) != nullptr) continue;
    Fail(key.line(), "unknown key " + Quoted(key.text()) + " in " + std::string(SectionName(section)) +
                         Suggest(key.text(), known));
  }
  CheckRequired(known_elsewhere);
  if (reporter.diagnostics.total() != errors_before) ok_ = false;
}

void OptionReader::CheckRequired(std::string_view known) {
  for (const Option* option : OptionsOf(section_)) {
    if (option->required && option->name != known && !Has(option->name)) {
      Fail(line_, std::string(SectionName(section_)) + " needs " + std::string(option->name));
    }
  }
}

const Option& OptionReader::Find(std::string_view name) const {
  const Option* option = FindOption(section_, name);
  assert(option != nullptr);
  return *option;
}

void OptionReader::Fail(int line, std::string message) {
  reporter_.Error(line, std::move(message));
  ok_ = false;
}

std::optional<YamlValue> OptionReader::Value(std::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key.text() == name) return value;
  }
  return std::nullopt;
}

int OptionReader::Line(std::string_view name) const {
  const auto value = Value(name);
  return value ? value->line() : line_;
}

std::optional<std::string> OptionReader::Scalar(const Option& option) {
  const auto value = Value(option.name);
  if (!value) {
    if (option.fallback.empty()) return std::nullopt;
    return std::string(option.fallback);
  }
  if (value->is_scalar()) return std::string(value->text());
  Fail(value->line(), std::string(option.name) + " is a " + std::string(TypeName(option.type)) + ", not " +
                          Describe(*value));
  return std::nullopt;
}

bool OptionReader::InBounds(const Option& option, int64_t value, std::string_view text) {
  if (option.min == 0 && option.max == 0) return true;
  if (value >= option.min && value <= option.max) return true;
  const bool duration = option.type == ValueType::kDuration;
  const auto written = [&](int64_t bound) {
    return duration ? FormatDuration(Micros{bound}) : std::to_string(bound);
  };
  Fail(Line(option.name), std::string(option.name) + " is " + written(option.min) + " to " +
                              written(option.max) + ", not " + std::string(text));
  return false;
}

std::optional<std::string> OptionReader::Text(std::string_view name) {
  const Option& option = Find(name);
  auto text = Scalar(option);
  if (!text) return std::nullopt;
  if (option.type == ValueType::kChoice) {
    const auto choices = Choices(option);
    if (std::find(choices.begin(), choices.end(), *text) != choices.end()) return text;
    Fail(Line(name), std::string(name) + " cannot be " + Quoted(*text) + Suggest(*text, choices));
    return std::nullopt;
  }
  if (option.type == ValueType::kName && !IsValidName(*text)) {
    Fail(Line(name),
         "the " + std::string(name) + " " + Quoted(*text) + " is not 1 to 64 of A-Z a-z 0-9 . _ -");
    return std::nullopt;
  }
  if (text->empty()) {
    Fail(Line(name), std::string(name) + " is empty");
    return std::nullopt;
  }
  return text;
}

std::optional<int64_t> OptionReader::Count(std::string_view name) {
  const Option& option = Find(name);
  const auto text = Scalar(option);
  if (!text) return std::nullopt;
  if (option.type == ValueType::kAutoCount && *text == "auto") return 0;
  const auto count = ParseCount(*text);
  if (!count) {
    Fail(Line(name), std::string(name) + ": " + count.error().message);
    return std::nullopt;
  }
  if (!InBounds(option, *count, *text)) return std::nullopt;
  return *count;
}

std::optional<Rate> OptionReader::ReadRate(std::string_view name) {
  const auto text = Scalar(Find(name));
  if (!text) return std::nullopt;
  auto rate = ParseRate(*text);
  if (rate) return *rate;
  Fail(Line(name), std::string(name) + ": " + rate.error().message);
  return std::nullopt;
}

std::optional<Micros> OptionReader::Duration(std::string_view name) {
  const Option& option = Find(name);
  const auto text = Scalar(option);
  if (!text) return std::nullopt;
  const auto duration = ParseDuration(*text);
  if (!duration) {
    Fail(Line(name), std::string(name) + ": " + duration.error().message);
    return std::nullopt;
  }
  if (!InBounds(option, duration->count, *text)) return std::nullopt;
  return *duration;
}

std::optional<bool> OptionReader::Flag(std::string_view name) {
  const auto text = Scalar(Find(name));
  if (!text) return std::nullopt;
  if (*text == "true" || *text == "false") return *text == "true";
  Fail(Line(name), std::string(name) + " is true or false, not " + Quoted(*text));
  return std::nullopt;
}

std::vector<std::pair<std::string, int>> OptionReader::Texts(std::string_view name) {
  const auto value = Value(name);
  if (!value) return {};
  const size_t errors_before = reporter_.diagnostics.total();
  auto texts = ReadTexts(*value, name, reporter_);
  if (reporter_.diagnostics.total() != errors_before) ok_ = false;
  return texts;
}

}  // namespace penstock::policy
