#include "policy/diagnostics.h"

#include "base/bytes.h"

namespace penstock::policy {
namespace {

constexpr size_t kMaxQuoted = 80;

}  // namespace

std::string Diagnostic::Text() const {
  std::string out = file;
  if (line > 0) {
    out += ':';
    AppendInt(out, line);
  }
  if (!out.empty()) out += ": ";
  return out + message;
}

void Diagnostics::Error(std::string_view file, int line, std::string message) {
  ++total_;
  if (errors_.size() == kMaxErrors) return;
  // Behind the last of the same file that stands no later in it, so that a person reads from top to bottom though
  // reading and compiling find things at different times.
  auto place = errors_.end();
  while (place != errors_.begin() && (place - 1)->file == file && (place - 1)->line > line) --place;
  errors_.insert(place, {std::string(file), line, std::move(message)});
}

void Diagnostics::Warning(std::string_view file, int line, std::string message) {
  if (warnings_.size() < kMaxWarnings) warnings_.push_back({std::string(file), line, std::move(message)});
}

std::string Diagnostics::Text() const {
  std::string out;
  for (const Diagnostic& error : errors_) out += error.Text() + '\n';
  if (total_ > errors_.size()) {
    out += "and ";
    AppendInt(out, static_cast<int64_t>(total_ - errors_.size()));
    out += " more\n";
  }
  return out;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxQuoted)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      AppendHex(out, byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kMaxQuoted) out += "…";
  return out + '"';
}

}  // namespace penstock::policy
