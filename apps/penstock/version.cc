#include <cstdio>
#include <cstdlib>

#include "commands.h"

namespace penstock::app {

int RunVersion(bool json) {
  std::printf(json ? "{\"version\":\"%s\"}\n" : "penstock %s\n", PENSTOCK_VERSION);
  return kExitFine;
}

std::string TokenFromEnvironment() {
  const char* const token = std::getenv("PENSTOCK_TOKEN");
  return token == nullptr ? "" : token;
}

int Complain(int code, const std::string& message) {
  std::fprintf(stderr, "penstock: %s\n", message.c_str());
  return code;
}

}  // namespace penstock::app
