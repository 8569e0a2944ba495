// What the fixtures of this folder throw when a process or a connection does not do what a test needs: the test fails
// with these words.
#pragma once

#include <stdexcept>
#include <string>

namespace penstock::fixtures {

class FixtureError : public std::runtime_error {
 public:
  explicit FixtureError(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace penstock::fixtures
