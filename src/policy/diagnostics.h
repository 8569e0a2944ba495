// What is wrong with a policy, each finding with its file and line. A reader collects all it finds, up to a bound,
// so that a person mends a file in one go.
//
// Thread contract: a plain value of one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::policy {

struct Diagnostic {
  std::string file;
  int line = 0;         // from 1; 0 = the file as a whole
  std::string message;  // one sentence without a trailing full stop

  // "file:line: message"
  std::string Text() const;
};

class Diagnostics {
 public:
  static constexpr size_t kMaxErrors = 20;
  static constexpr size_t kMaxWarnings = 100;

  void Error(std::string_view file, int line, std::string message);
  // A finding that does not stop the load; more than kMaxWarnings are dropped.
  void Warning(std::string_view file, int line, std::string message);

  bool ok() const { return total_ == 0; }
  // The first kMaxErrors that were found, by line within a file; `total` counts all.
  const std::vector<Diagnostic>& errors() const { return errors_; }
  const std::vector<Diagnostic>& warnings() const { return warnings_; }
  size_t total() const { return total_; }
  // Every error on a line of its own, then how many more there are.
  std::string Text() const;

 private:
  // errors_ holds the first min(total_, kMaxErrors) errors.
  std::vector<Diagnostic> errors_;
  std::vector<Diagnostic> warnings_;
  size_t total_ = 0;
};

// The text in double quotes, cut to a length fit for a message, its control characters shown as \xNN.
std::string Quoted(std::string_view text);

}  // namespace penstock::policy
