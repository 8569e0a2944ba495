// A TCP port that no other test of this machine takes while this object lives. It is below the range from which the
// kernel gives ports to clients, so that no connection takes it either.
#pragma once

#include <cstdint>
#include <utility>

namespace penstock::fixtures {

class Port {
 public:
  Port();  // throws FixtureError when none is free
  ~Port();
  Port(Port&& other) noexcept : number_(other.number_), lock_(std::exchange(other.lock_, -1)) {}
  Port& operator=(Port&&) = delete;

  uint16_t number() const { return number_; }

 private:
  uint16_t number_ = 0;
  int lock_ = -1;  // a socket whose abstract name says the number; the kernel drops it with the process
};

}  // namespace penstock::fixtures
