// `penstock serve`: the flags become server options; the rest is the server's.
#include "serve.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "commands.h"
#include "server/run.h"
#include "server/settings.h"

namespace penstock::app {
namespace {

std::optional<std::string> Given(const std::string& flag) {
  return flag.empty() ? std::nullopt : std::optional(flag);
}

LogLevel LevelOf(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

}  // namespace

Result<server::Options> MakeServerOptions(const ServeFlags& flags) {
  server::Options options;
  options.policy = flags.policy;
  options.flags.engine = Given(flags.engine);
  options.flags.http = Given(flags.http);
  options.flags.resp = Given(flags.resp);
  options.flags.grpc = Given(flags.grpc);
  options.flags.token_file = Given(flags.token_file);
  options.flags.snapshot = Given(flags.snapshot);
  if (flags.threads == "auto") {
    options.flags.threads = server::WorkerCount(0);  // a number, so that it beats the file's
  } else if (!flags.threads.empty()) {
    options.flags.threads = ParseInt(flags.threads);
    if (!options.flags.threads || *options.flags.threads < 1) {
      return Invalid("--threads: '" + flags.threads + "' is neither auto nor a number of at least 1");
    }
  }
  options.insecure = flags.insecure;
  options.discard_snapshot = flags.discard_snapshot;
  SetLogLevel(LevelOf(flags.log_level));
  return options;
}

int RunServe(const ServeFlags& flags) {
  const Result<server::Options> options = MakeServerOptions(flags);
  if (!options) return Complain(kExitUsage, options.error().message);
  const SystemClock clock;
  return server::Run(*options, clock);
}

}  // namespace penstock::app
