#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace penstock {

void SecureRandomBytes(std::span<unsigned char> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t n = getrandom(out.data() + filled, out.size() - filled, 0);
    if (n > 0) {
      filled += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      std::abort();
    }
  }
}

}  // namespace penstock
