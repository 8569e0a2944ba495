// The flags of `serve`, shared with penstock-testserver, and how they become server options.
#pragma once

#include <string>

#include "base/result.h"
#include "server/options.h"

namespace penstock::app {

// Empty strings and 0: not given; the file, and then the default, holds.
struct ServeFlags {
  std::string policy;
  std::string engine;
  std::string http;
  std::string resp;
  std::string grpc;
  std::string threads;
  std::string token_file;
  std::string snapshot;
  std::string log_level = "info";
  bool discard_snapshot = false;
  bool insecure = false;
};

// Flags over environment over policy file. An Error is fit to be shown as it is.
Result<server::Options> MakeServerOptions(const ServeFlags& flags);
// Sets the level too.
int RunServe(const ServeFlags& flags);

}  // namespace penstock::app
