#include "flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

#include "commands.h"
#include "penstock/request.h"
#include "serve.h"
#include "serve_flags.h"

namespace penstock::app {

void AddServeFlags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option("--policy", flags.policy,
                  "policy file, or a directory of them; without it callers bring their own limits")
      ->type_name("FILE_OR_DIR");
  command.add_option("--engine", flags.engine, "where buckets live; memory: is this process")
      ->type_name("URL");
  command.add_option("--http", flags.http, "where HTTP is served; port 0 takes a free one [127.0.0.1:8080]")
      ->type_name("ADDR:PORT|off");
  command.add_option("--resp", flags.resp, "where RESP (Redis' protocol) is served [127.0.0.1:6380]")
      ->type_name("ADDR:PORT|off");
  command.add_option("--grpc", flags.grpc, "gRPC; only off is known yet")->type_name("off");
  command.add_option("--threads", flags.threads, "event loops; auto is one a core [auto]")
      ->type_name("N|auto");
  command.add_option("--token-file", flags.token_file, "file with the token that callers must show")
      ->type_name("FILE");
  command
      .add_option("--snapshot", flags.snapshot, "file that keeps the memory engine's state over a restart")
      ->type_name("FILE");
  command.add_flag(
      "--discard-snapshot", flags.discard_snapshot,
      "begin without the snapshot if it is damaged or of a newer version, instead of refusing to start");
  command.add_flag("--insecure", flags.insecure, "listen beyond this machine without a token");
  command.add_option("--log-level", flags.log_level, "least that is logged on stderr")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
}

namespace {

void AddServe(CLI::App& app, ServeFlags& flags) {
  CLI::App& command = *app.add_subcommand("serve", "run the server");
  command.footer(
      "A flag wins over the policy file. When it serves it prints one line that starts with `ready` on "
      "stdout.\n"
      "SIGHUP reads policy and certificates again; SIGTERM stops in order, a second one at once.\n"
      "Environment: PENSTOCK_TOKEN, the token that callers must show.");
  AddServeFlags(command, flags);
}

void AddServer(CLI::App& command, std::string& server) {
  command.add_option("--server", server, "address of a server [http://127.0.0.1:8080]")
      ->envname("PENSTOCK_URL")
      ->type_name("URL");
}

void AddCheck(CLI::App& app, CheckFlags& flags) {
  CLI::App& command = *app.add_subcommand("check", "ask whether a request may go now");
  command.footer(
      "Exit code: 0 allowed, 1 denied, 2 wrong usage or policy, 3 unavailable.\n"
      "Environment: PENSTOCK_URL, the server if --server is not given; PENSTOCK_TOKEN, the token to show.");
  command.add_option("domain", flags.domain, "domain of the policy")->required()->type_name("DOMAIN");
  command.add_option("attributes", flags.attributes, "attributes of the request")->type_name("NAME=VALUE");
  command.add_option("--cost", flags.cost, "cost in requests; 0 looks without charging")
      ->capture_default_str();
  AddServer(command, flags.server);
  command.add_option("--policy", flags.policy, "ask a fresh engine under this policy, without a server")
      ->type_name("FILE_OR_DIR");
  command.add_flag("--json", flags.json, "print the answer as JSON");
}

void AddLimits(CLI::App& app, LimitsFlags& flags) {
  CLI::App& limits = *app.add_subcommand("limits", "show and change the limits of a running server");
  limits.require_subcommand(1);
  limits.footer(
      "What is set here beats the policy file, on every node, until it is deleted.\n"
      "Exit code: 0 fine, 1 another version is in force, 2 wrong usage, 3 unavailable.\n"
      "Environment: PENSTOCK_URL, the server if --server is not given; PENSTOCK_TOKEN, the token to show.");
  const auto add = [&](const char* name, const char* what) -> CLI::App& {
    CLI::App& command = *limits.add_subcommand(name, what);
    command.callback([&flags, name] { flags.what = name; });
    AddServer(command, flags.server);
    command.add_flag("--json", flags.json, "print the answer as JSON");
    return command;
  };
  const auto add_one = [&](const char* name, const char* what) -> CLI::App& {
    CLI::App& command = add(name, what);
    command.add_option("domain", flags.domain, "domain of the limit")->required()->type_name("DOMAIN");
    command.add_option("name", flags.name, "name of the limit")->required()->type_name("NAME");
    return command;
  };
  const auto add_if_match = [&](CLI::App& command) {
    command.add_option("--if-match", flags.if_match, "only while this version is in force")
        ->type_name("VERSION");
  };
  add("list", "every limit in force");
  add_one("get", "one limit, with what it says");
  CLI::App& set = add_one("set", "set a limit at run time, or make a new one");
  set.add_option("definition", flags.definition, "the limit, by the keys of a policy file: '{rate: 100/min}'")
      ->type_name("DEFINITION");
  set.add_option("--file", flags.file, "where the definition stands; - is the standard input")
      ->type_name("FILE");
  add_if_match(set);
  add_if_match(add_one("delete", "end what was set: the policy file's limit is in force again, or none"));
  add_one("reset", "drop the bucket of these attributes: no use is left")
      .add_option("attributes", flags.attributes, "attributes of the bucket")
      ->type_name("NAME=VALUE");
}

void AddLint(CLI::App& app, LintFlags& flags) {
  CLI::App& command = *app.add_subcommand("lint", "check a policy and show in plain words what it says");
  command.footer("Exit code: 0 fine, 1 findings that do not stop a load, 2 the policy cannot be loaded.");
  command.add_option("file", flags.file, "policy file, or a directory of them")
      ->required()
      ->type_name("FILE_OR_DIR");
  command
      .add_option("--against", flags.against, "a policy in force, to show whose buckets would start fresh")
      ->type_name("FILE_OR_DIR");
  command.add_flag("--json", flags.json, "print the findings as JSON");
}

void AddBench(CLI::App& app, BenchFlags& flags) {
  const CLI::Range from_one(int64_t{1}, kMaxCost);
  CLI::App& command = *app.add_subcommand("bench", "measure decisions a second and their latency");
  command.footer(
      "embedded measures the engine in this process; resp and http load a running server with ad hoc "
      "limits.\n"
      "Environment: PENSTOCK_TOKEN, the token to show.");
  command.add_option("what", flags.what, "embedded, resp or http")
      ->check(CLI::IsMember({"embedded", "resp", "http"}))
      ->capture_default_str();
  command.add_option("--target", flags.target, "the server [127.0.0.1:6380, http: 127.0.0.1:8080]")
      ->type_name("ADDR:PORT");
  command.add_option("--connections", flags.connections, "connections to the server")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      .add_option("--pipeline", flags.pipeline,
                  "requests sent together; embedded: batch [64, resp 32, http 1]")
      ->check(CLI::Range(1, 1'000));
  command.add_option("--threads", flags.threads, "callers, embedded only")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--requests", flags.requests, "stop after so many decisions instead of after --seconds");
  command.add_option("--seconds", flags.seconds, "how long")
      ->check(CLI::Range(0.1, 3'600.0))
      ->capture_default_str();
  command.add_option("--keys", flags.keys, "random keys")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000'000}))
      ->capture_default_str();
  command.add_option("--burst", flags.burst, "burst of every key's limit")
      ->check(from_one)
      ->capture_default_str();
  command.add_option("--count", flags.count, "count of every key's limit")
      ->check(from_one)
      ->capture_default_str();
  command.add_option("--period", flags.period_s, "its period in seconds")
      ->check(from_one)
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "of the random keys")->capture_default_str();
  command.add_flag("--json", flags.json, "print the figures as JSON");
}

void AddVerify(CLI::App& app, VerifyFlags& flags) {
  CLI::App& command = *app.add_subcommand("verify", "run the operator's checklist against a live engine");
  command.footer(
      "Decides on scratch buckets under the prefix, which are dropped afterwards, and reads the servers' "
      "settings.\n"
      "It changes nothing else, but for the failover that --failover asks for. The user of the URL needs "
      "what a node\n"
      "needs; what it may not read is skipped, and the report says so (docs/engines.md has the rules for a "
      "full look).\n"
      "Exit code: 0 fine, 1 findings, 2 wrong usage or policy, 3 the engine cannot be reached.");
  CLI::Option* const engine =
      command.add_option("--engine", flags.engine, "where buckets live, as for serve")->type_name("URL");
  CLI::Option* const policy =
      command.add_option("--policy", flags.policy, "take the settings under `engine` from this policy")
          ->type_name("FILE_OR_DIR");
  command.add_option("--prefix", flags.prefix, "what stands before every key [pen:]")->type_name("TEXT");
  command
      .add_option("--acl-user", flags.acl_user, "check this user's rights instead of those of the URL's user")
      ->type_name("NAME");
  command.add_flag("--failover", flags.failover, "replace a master for real, and measure the outage");
  command.add_option("--max-keys", flags.max_keys, "how many keys of a server are looked at")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}))
      ->capture_default_str();
  command.add_flag("--json", flags.json, "print the report as JSON");
  command.callback([engine, policy] {
    if (engine->count() + policy->count() == 0) throw CLI::RequiredError("--engine or --policy");
  });
}

// An empty value is a slip, most likely a variable that is not set: `serve --policy "$POLICY"` must not start without one.
void RefuseEmptyValues(CLI::App& app) {
  const auto check = [](const std::string& value) {
    return value.empty() ? std::string("is empty") : std::string();
  };
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) {
    RefuseEmptyValues(*command);
    for (CLI::Option* const option : command->get_options()) {
      if (option->get_items_expected_max() > 0) option->check(check, "");
    }
  }
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  CLI::App app("Penstock limits rates: it answers, for a whole fleet, whether a request may go now.",
               "penstock");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("penstock ") + PENSTOCK_VERSION);
  ServeFlags serve;
  CheckFlags check;
  LimitsFlags limits;
  LintFlags lint;
  BenchFlags bench;
  VerifyFlags verify;
  bool version_json = false;
  AddServe(app, serve);
  AddCheck(app, check);
  AddLimits(app, limits);
  AddLint(app, lint);
  AddBench(app, bench);
  AddVerify(app, verify);
  app.add_subcommand("version", "print the version")->add_flag("--json", version_json, "print it as JSON");
  RefuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version; CLI11's own codes are none of ours.
    return app.exit(error) == 0 ? kExitFine : kExitUsage;
  }
  if (app.got_subcommand("serve")) return RunServe(serve);
  if (app.got_subcommand("check")) return RunCheck(check);
  if (app.got_subcommand("limits")) return RunLimits(limits);
  if (app.got_subcommand("lint")) return RunLint(lint);
  if (app.got_subcommand("bench")) return RunBench(bench);
  if (app.got_subcommand("verify")) return RunVerify(verify);
  return RunVersion(version_json);
}

}  // namespace penstock::app
