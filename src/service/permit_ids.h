// Numbers of permits to be: random, and not to be guessed, since who has a permit's id may release it.
//
// Thread contract: one event loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"

namespace penstock::service {

class PermitIds {
 public:
  Hash128 Next() {
    if (next_ ==
        kBuffered) {  // the kernel is asked for many at once: a call costs as much as hundreds of ids
      SecureRandomBytes(bytes_);
      next_ = 0;
    }
    Hash128 id;
    std::memcpy(&id, bytes_.data() + next_++ * sizeof id, sizeof id);
    return id;
  }

 private:
  static constexpr size_t kBuffered = 256;
  static_assert(sizeof(Hash128) == 16);
  std::array<unsigned char, kBuffered * sizeof(Hash128)> bytes_;
  size_t next_ = kBuffered;
};

}  // namespace penstock::service
