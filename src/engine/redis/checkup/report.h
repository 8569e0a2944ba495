// What the checkup of a live engine says: one finding a check, each with its figure, what it means and what to do.
//
// Thread contract: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::checkup {

// In the order of weight: of several servers the heaviest is told. "Could not ask" weighs more than ok.
enum class Status : uint8_t {
  kOk,
  kSkipped,  // does not apply, or could not be asked; the meaning says which
  kWarning,  // limits hold now, and would not, or not as well, on a day that can come
  kFailed,   // limits are exceeded or lost, or decisions are unavailable
};
std::string_view ToString(Status status);  // ok, skipped, warning, failed

struct Finding {
  explicit Finding(std::string_view check) : name(check) {}

  // What a server (or whatever `where` names) contributes. The heaviest contribution gives the finding its status,
  // meaning and remedy, of equal ones the first; each stands in the details.
  void Add(Status heard, std::string_view where, std::string_view what, std::string_view why = {},
           std::string_view cure = {});

  std::string name;  // lower case, stable
  Status status = Status::kOk;
  std::string figure;   // what was measured or read, in a few words
  std::string meaning;  // one sentence; of an ok check what it shows
  std::string remedy;   // what to do; empty when ok
  std::vector<std::string> details;
};

struct Report {
  std::string engine;  // what was looked at, without a password
  std::vector<Finding> findings;
  int64_t elapsed_ms = 0;
  // Not empty: nothing could be asked, and why.
  std::string unreachable;

  size_t Count(Status status) const;
  // A warning or a failure.
  bool HasFindings() const { return Count(Status::kWarning) + Count(Status::kFailed) > 0; }
};

// For people: a block a check, wrapped at 100 columns.
std::string ReportText(const Report& report);
// {"ok":…,"engine":…,"checks":[{"name":…,"status":…,"figure":…,"meaning":…,"remedy":…,"details":[…]}]}
std::string ReportJson(const Report& report);

}  // namespace penstock::checkup
