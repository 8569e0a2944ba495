// What was wrong with a call, as a value: Penstock throws nothing across its borders.
#pragma once

#include <string>

namespace penstock {

enum class ErrorKind : unsigned char {
  kInvalid,      // the caller's input is wrong; the message names the place
  kNotFound,     // the named thing does not exist
  kConflict,     // a version or an id is already taken by something else
  kTooLarge,     // a documented bound is passed
  kUnavailable,  // a store, file or peer could not be asked
  kInternal,     // our own fault
};

struct [[nodiscard]] Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // one sentence for a person, without a trailing full stop
};

}  // namespace penstock
