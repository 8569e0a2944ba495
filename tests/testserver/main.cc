// penstock-testserver: the server of `penstock serve`, with a clock that a test moves over a control socket. It is
// never installed; the shipped binary has no way to move its clock.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <utility>

#include "commands.h"
#include "control.h"
#include "serve_flags.h"
#include "server/run.h"

namespace {

using penstock::Micros;

// A day when nothing special happens: 2026-01-01T00:00:00Z.
constexpr int64_t kStartUs = 1'767'225'600'000'000;

struct TestFlags {
  penstock::app::ServeFlags serve;
  int64_t start_us = kStartUs;
  // Time-outs and bounds that a test wants to meet sooner; these go by real time. 0: as shipped.
  int64_t idle_ms = 0;
  int64_t head_ms = 0;
  int64_t body_ms = 0;
  int64_t stalled_ms = 0;
  int64_t drain_ms = 0;
  uint32_t max_connections = 0;
};

void AddFlags(CLI::App& app, TestFlags& flags) {
  penstock::app::AddServeFlags(app, flags.serve);
  app.add_option("--start", flags.start_us, "what the clock shows at first, in us since the epoch")
      ->capture_default_str();
  app.add_option("--idle-ms", flags.idle_ms, "time-out between two requests");
  app.add_option("--head-ms", flags.head_ms, "time-out of a request's head");
  app.add_option("--body-ms", flags.body_ms, "time-out of a request's body");
  app.add_option("--stalled-ms", flags.stalled_ms, "time-out of a peer that does not read");
  app.add_option("--drain-ms", flags.drain_ms, "time for what is in flight at shutdown");
  app.add_option("--max-connections", flags.max_connections, "connections a port");
}

void Apply(const TestFlags& flags, penstock::server::Options& options) {
  const auto set = [](Micros& limit, int64_t ms) {
    if (ms > 0) limit = penstock::Millis(ms);
  };
  for (penstock::net::Limits* limits : {&options.http_limits, &options.resp_limits}) {
    set(limits->idle, flags.idle_ms);
    set(limits->head, flags.head_ms);
    set(limits->body, flags.body_ms);
    set(limits->stalled, flags.stalled_ms);
    if (flags.max_connections > 0) limits->max_connections = flags.max_connections;
  }
  set(options.drain, flags.drain_ms);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Penstock's server with a clock that a test moves (control=ADDR:PORT in its ready line).",
               "penstock-testserver");
  TestFlags flags;
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : penstock::app::kExitUsage;
  }
  penstock::Result<penstock::server::Options> options = penstock::app::MakeServerOptions(flags.serve);
  if (!options) return penstock::app::Complain(penstock::app::kExitUsage, options.error().message);
  Apply(flags, *options);

  penstock::ManualClock clock(penstock::EngineTime{flags.start_us});
  std::unique_ptr<penstock::app::Control> control;
  penstock::server::RunHooks hooks;
  hooks.started = [&](penstock::server::Server& server) -> std::string {
    auto started = penstock::app::Control::Start(clock, [&server] { server.ClockMoved(); });
    if (!started) return " control=" + started.error().message;
    control = std::move(*started);
    return " control=" + control->endpoint().Text();
  };
  hooks.stopping = [&control] { control.reset(); };
  return penstock::server::Run(*options, clock, hooks);
}
