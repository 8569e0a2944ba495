// Reads one mapping of a policy file by the table of options: unknown and repeated keys, wrong types and values out
// of bounds become errors with their line; what is left out takes the table's default.
//
// Precondition: every name asked for stands in the table, with the type that the called method reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/diagnostics.h"
#include "policy/options.h"
#include "policy/rate.h"
#include "policy/yaml.h"

namespace penstock::policy {

// Where errors of one file go.
struct Reporter {
  std::string_view file;
  Diagnostics& diagnostics;

  void Error(int line, std::string message) const { diagnostics.Error(file, line, std::move(message)); }
};

// A mapping's keys and values, each key a text that stands once; what is not is reported with `what` it should be.
std::vector<std::pair<YamlValue, YamlValue>> ReadMapping(const YamlValue& value, std::string_view what,
                                                         const Reporter& reporter);

// " (did you mean burst?)", or " (one of a, b, c)" when none is near.
std::string Suggest(std::string_view word, const std::vector<std::string_view>& words);

// A text: a scalar that is there.
std::optional<std::string> ReadText(const YamlValue& value, std::string_view what, const Reporter& reporter);
// A text or a list of one or more; an empty result is an error that was reported.
std::vector<std::pair<std::string, int>> ReadTexts(const YamlValue& value, std::string_view what,
                                                   const Reporter& reporter);

class OptionReader {
 public:
  // Without a value every option has its default. `known_elsewhere` is a required option that stands elsewhere already.
  OptionReader(Section section, const std::optional<YamlValue>& value, const Reporter& reporter,
               std::string_view known_elsewhere = {});

  // Each is empty when the option is left out without a default, or was wrong (and reported).
  std::optional<std::string> Text(std::string_view name);
  std::optional<int64_t> Count(std::string_view name);  // kAutoCount: `auto` is 0
  std::optional<Rate> ReadRate(std::string_view name);
  std::optional<Micros> Duration(std::string_view name);
  std::optional<bool> Flag(std::string_view name);
  std::vector<std::pair<std::string, int>> Texts(std::string_view name);
  // What stands there, for options with a shape of their own.
  std::optional<YamlValue> Value(std::string_view name) const;

  bool Has(std::string_view name) const { return Value(name).has_value(); }
  // The option's own line, or the mapping's.
  int Line(std::string_view name) const;
  int line() const { return line_; }
  // Whether nothing was reported by this reader.
  bool ok() const { return ok_; }

 private:
  const Option& Find(std::string_view name) const;
  void Fail(int line, std::string message);
  void CheckRequired(std::string_view known);
  // The option's text, from the file or the table; empty when there is none or it is no scalar.
  std::optional<std::string> Scalar(const Option& option);
  bool InBounds(const Option& option, int64_t value, std::string_view text);

  const Section section_;
  const Reporter reporter_;
  int line_ = 0;
  bool ok_ = true;
  std::vector<std::pair<YamlValue, YamlValue>> entries_;
};

}  // namespace penstock::policy
