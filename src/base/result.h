// Errors are values: Result<T> holds a T or an Error. What may happen (a peer's bytes, a file, a policy) comes back
// as an Error; an assertion is for our own mistakes only.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

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

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> Fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}
inline tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorKind::kInvalid, std::move(message));
}

}  // namespace penstock
