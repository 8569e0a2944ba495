#include "redis/users.h"

#include <fstream>
#include <sstream>

#include "redis/fixture_error.h"

namespace penstock::fixtures {
namespace {

// The line of a file that makes a user of this name and gives it a password.
User Read(const std::string& file, const std::string& name) {
  std::ifstream in(std::string(PENSTOCK_SOURCE_FOLDER "/") + file);
  const std::string start = "user " + name + " on >";
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(start)) continue;
    std::istringstream rest(line.substr(start.size()));
    User user{name, {}, line};
    rest >> user.password;
    return user;
  }
  throw FixtureError(file + " has no user " + name);
}

}  // namespace

const User& NodeUser() {
  static const User user = Read("deploy/redis/users.acl", "penstock");
  return user;
}

const User& SentinelUser() {
  static const User user = Read("docs/engines.md", "watch");
  return user;
}

}  // namespace penstock::fixtures
