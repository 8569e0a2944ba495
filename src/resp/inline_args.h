// Splits one inline command line into arguments by Redis' rules: white space separates; "…" takes \n \r \t \b
// \a \xHH and any other escaped character as itself; '…' takes \' only; a closing quote must end the
// argument.
//
// Decodes in place: an argument is never longer than its spelling, so the views point into the line.
//
// Thread contract: a plain value of the caller's thread.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace penstock::resp {

class InlineArgs {
 public:
  // `line` without its line end; its bytes are overwritten.
  explicit InlineArgs(std::span<char> line) : cursor_(line.data()), end_(line.data() + line.size()) {}

  // The next argument, or none at the end or at unbalanced quotes.
  std::optional<std::string_view> Next();
  bool balanced() const { return balanced_; }

 private:
  bool TakeQuoted(char quote, char*& out);

  char* cursor_;
  char* const end_;
  bool balanced_ = true;
};

}  // namespace penstock::resp
