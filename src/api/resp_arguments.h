// The arguments of a command and its options, read from the front: what every command with options shares.
//
// Thread contract: plain values; views into the command.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/result.h"

namespace penstock::api {

// What is left of them.
class Arguments {
 public:
  explicit Arguments(std::span<const std::string_view> args) : left_(args) {}
  bool empty() const { return left_.empty(); }
  size_t size() const { return left_.size(); }
  std::string_view Take() {
    const std::string_view front = left_.front();
    left_ = left_.subspan(1);
    return front;
  }
  Result<int64_t> TakeNumber(const char* name, int64_t least, int64_t most) {
    if (empty()) return Invalid(std::string(name) + " needs a number");
    const std::optional<int64_t> value = ParseInt(Take());
    if (!value) return Invalid(std::string(name) + " must be a whole number");
    if (*value < least || *value > most) {
      return Invalid(std::string(name) + " must be from " + std::to_string(least) + " to " +
                     std::to_string(most));
    }
    return *value;
  }

 private:
  std::span<const std::string_view> left_;
};

template <class T>
Result<void> Number(Arguments& args, const char* name, int64_t least, int64_t most, T& into) {
  const Result<int64_t> value = args.TakeNumber(name, least, most);
  if (!value) return tl::unexpected(value.error());
  into = static_cast<T>(*value);
  return {};
}

inline Result<void> Text(Arguments& args, const char* name, size_t most, std::string_view& into) {
  if (args.empty()) return Invalid(std::string(name) + " needs a value");
  into = args.Take();
  if (into.empty() || into.size() > most) {
    return Invalid(std::string(name) + " must be 1 to " + std::to_string(most) + " bytes");
  }
  return {};
}

template <class Target>
struct Option {
  std::string_view name;  // in lower case
  Result<void> (*read)(Target& target);
};

// Reads options in any order to the end, each at most once. The target has `args`.
template <class Target>
Result<void> ReadOptions(std::span<const Option<Target>> options, Target& target) {
  uint32_t seen = 0;
  while (!target.args.empty()) {
    const std::string_view name = target.args.Take();
    const auto found = std::find_if(options.begin(), options.end(), [&](const Option<Target>& option) {
      return EqualsIgnoringCase(name, option.name);
    });
    if (found == options.end()) return Invalid("syntax error at '" + std::string(name.substr(0, 64)) + "'");
    const uint32_t bit = uint32_t{1} << (found - options.begin());
    if ((seen & bit) != 0) return Invalid("'" + std::string(name) + "' stands twice");
    seen |= bit;
    if (Result<void> read = found->read(target); !read) return read;
  }
  return {};
}

}  // namespace penstock::api
