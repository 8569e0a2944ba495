// A number that may not be there, as a reply has it.
#pragma once

#include <cstdint>
#include <optional>

#include "resp/writer.h"

namespace penstock::api {

inline void WriteOptional(resp::Writer& writer, const std::optional<int64_t>& value) {
  if (value) {
    writer.Integer(*value);
  } else {
    writer.Null();
  }
}

}  // namespace penstock::api
