// The four answers to "may this go now?". "Could not ask" is an answer of its own, never folded into yes or no.
#pragma once

#include <string_view>

namespace penstock {

enum class Outcome : unsigned char {
  kAllowed,      // charged (a peek: it would be)
  kDenied,       // not now; the instant at which it would pass is known
  kNever,        // cost above capacity, or rate 0: waiting does not help
  kUnavailable,  // the engine could not be asked; `allowed` then follows the limit's on_failure
};

constexpr std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAllowed:
      return "allowed";
    case Outcome::kDenied:
      return "denied";
    case Outcome::kNever:
      return "never";
    case Outcome::kUnavailable:
      return "unavailable";
  }
  return "unavailable";
}

}  // namespace penstock
