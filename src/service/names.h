// Names that outlive the policy they came from: a Decision's views of a limit's name and unit must stay valid for the
// life of the limiter, over every reload.
//
// Thread contract: NameTable is for any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/mutex.h"
#include "base/result.h"

namespace penstock::service {

// The domain and name of ad hoc limits. No policy can use them: names have neither parentheses nor spaces.
inline constexpr std::string_view kAdHocDomain = "(ad hoc)";
inline constexpr std::string_view kAdHocName = "(ad hoc)";
inline constexpr std::string_view kRequestsUnit = "requests";

// Keeps one copy of every name that it was ever given, at most kMaxNames.
class LastingNames {
 public:
  static constexpr size_t kMaxNames = 1'048'576;

  // A view that stays valid as long as this table. Fails when kMaxNames different names have been kept.
  Result<std::string_view> Keep(std::string_view name) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = names_.find(name);
    if (found != names_.end()) return std::string_view(*found);
    if (names_.size() == kMaxNames) {
      return Fail(ErrorKind::kTooLarge, "more than " + std::to_string(kMaxNames) +
                                            " names since the start; restart to forget old ones");
    }
    return std::string_view(*names_.emplace(name).first);
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  Mutex mutex_;
  // A node's string does not move when the table grows.
  std::unordered_set<std::string, Hash, std::equal_to<>> names_ GUARDED_BY(mutex_);
};

}  // namespace penstock::service
