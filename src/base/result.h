// Errors are values: Result<T> holds a T or an Error. What may happen (a peer's bytes, a file, a policy) comes back
// as an Error; an assertion is for our own mistakes only.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "penstock/error.h"

namespace penstock {

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> Fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}
inline tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorKind::kInvalid, std::move(message));
}

}  // namespace penstock
