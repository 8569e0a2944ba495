// Who a node is: the users of the documentation, with exactly its rules. Every server of these tests has them beside the
// default user, which may do everything and is the tests' own.
#pragma once

#include <string>

namespace penstock::fixtures {

struct User {
  std::string name;
  std::string password;
  std::string line;  // the whole user, as a server's configuration has it

  std::string LogIn() const { return name + ":" + password + "@"; }  // in a URL
};

// On a server: that of deploy/redis/users.acl.
const User& NodeUser();

// On a Sentinel: that of docs/engines.md.
const User& SentinelUser();

}  // namespace penstock::fixtures
