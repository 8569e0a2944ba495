#include "flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

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

constexpr char kPermitsFooter[] =
    "Exit code: 0 granted, done, 1 refused, or not held any more, 2 wrong usage, 3 unavailable.\n"
    "Environment: PENSTOCK_URL, the server if --server is not given; PENSTOCK_TOKEN, the token to show.";

void AddPermitOptions(CLI::App& command, PermitFlags& flags) {
  command.add_option("domain", flags.domain, "domain of the policy")->type_name("DOMAIN");
  command.add_option("attributes", flags.attributes, "attributes of the request")->type_name("NAME=VALUE");
  command.add_option("--key", flags.key, "instead of a domain: a semaphore that needs no policy")
      ->type_name("KEY");
  command.add_option("--permits", flags.permits, "with --key: how many may be held at once")
      ->check(CLI::Range(int64_t{1}, kMaxCost))
      ->type_name("N");
  command
      .add_option("--lease", flags.lease, "how long it is held without renewal [the limit's own; --key: 30s]")
      ->type_name("DURATION");
  command.add_option("--weight", flags.weight, "how many permits this one is")->capture_default_str();
  command.add_option("--wait", flags.wait, "stand in the queue at most so long, e.g. 30s")
      ->type_name("DURATION");
  command.add_option("--cost", flags.cost, "cost for the rates that apply, too")->capture_default_str();
  command.add_option("--holder", flags.holder, "a name by which people find it")->type_name("NAME");
  AddServer(command, flags.server);
}

void AddAcquire(CLI::App& app, PermitFlags& flags) {
  CLI::App& command = *app.add_subcommand("acquire", "take a permit, and print its ID");
  command.footer(kPermitsFooter);
  AddPermitOptions(command, flags);
  command.add_option("--request-id", flags.request_id, "makes a repeat safe: it gets the first answer again")
      ->type_name("ID");
  command.add_flag("--json", flags.json, "print the answer as JSON");
}

void AddRelease(CLI::App& app, ReleaseFlags& flags) {
  CLI::App& command =
      *app.add_subcommand("release", "give permits back, by their IDs or their holder's name");
  command.footer(kPermitsFooter);
  command.add_option("what", flags.what, "IDs; with --holder the attributes of the bucket")
      ->type_name("ID|NAME=VALUE");
  command.add_option("--holder", flags.holder, "all permits of this name in one bucket")->type_name("NAME");
  command.add_option("--domain", flags.domain, "with --holder")->type_name("DOMAIN");
  command.add_option("--limit", flags.limit, "with --holder")->type_name("LIMIT");
  command.add_option("--key", flags.key, "with --holder: of a semaphore without policy")->type_name("KEY");
  AddServer(command, flags.server);
  command.add_flag("--json", flags.json, "print the answers as JSON");
}

void AddRenew(CLI::App& app, RenewFlags& flags) {
  CLI::App& command = *app.add_subcommand("renew", "hold a permit for another lease from now on");
  command.footer(kPermitsFooter);
  command.add_option("id", flags.id, "ID of the permit")->required()->type_name("ID");
  command.add_option("--lease", flags.lease, "how long [the limit's own lease, which it may not pass]")
      ->type_name("DURATION");
  AddServer(command, flags.server);
  command.add_flag("--json", flags.json, "print the answer as JSON");
}

void AddHolders(CLI::App& app, HoldersFlags& flags) {
  CLI::App& command = *app.add_subcommand("holders", "show who holds the permits of a bucket");
  command.footer(kPermitsFooter);
  command.add_option("domain", flags.domain, "domain of the limit")->type_name("DOMAIN");
  command.add_option("limit", flags.limit, "name of the limit")->type_name("LIMIT");
  command.add_option("attributes", flags.attributes, "attributes of the bucket")->type_name("NAME=VALUE");
  command.add_option("--key", flags.key, "instead of them: a semaphore without policy")->type_name("KEY");
  command.add_option("--holder", flags.holder, "only those of this name")->type_name("NAME");
  AddServer(command, flags.server);
  command.add_flag("--json", flags.json, "print the answer as JSON");
}

void AddRun(CLI::App& app, RunFlags& flags) {
  CLI::App& command = *app.add_subcommand(
      "run", "hold a permit while a command runs: penstock run DOMAIN NAME=VALUE... -- COMMAND ARGUMENTS...");
  command.footer(
      "The permit is renewed while the command runs and given back when it ends. HUP, INT, QUIT, TERM, USR1, "
      "USR2 and\n"
      "ALRM are passed on. The command finds the permit's ID in PENSTOCK_PERMIT and its fence in "
      "PENSTOCK_FENCE.\n"
      "Exit code: the command's, 128 + n if signal n ended it, 127 if there is none, 126 if it cannot be "
      "run;\n"
      "before it runs: 1 refused, 2 wrong usage, 3 unavailable.\n"
      "Environment: PENSTOCK_URL, the server if --server is not given; PENSTOCK_TOKEN, the token to show.");
  AddPermitOptions(command, flags.permit);
  command.add_option("--on-loss", flags.on_loss, "if the permit is lost: say so, or end the command as well")
      ->check(CLI::IsMember({"warn", "kill"}))
      ->capture_default_str();
  command.add_option("--grace", flags.grace, "with kill: between TERM and KILL")
      ->type_name("DURATION")
      ->capture_default_str();
}

void AddPermits(CLI::App& app, PermitFlags& acquire, ReleaseFlags& release, RenewFlags& renew,
                HoldersFlags& holders, RunFlags& run) {
  AddAcquire(app, acquire);
  AddRelease(app, release);
  AddRenew(app, renew);
  AddHolders(app, holders);
  AddRun(app, run);
}

// What stands behind the first `--` of `penstock run` is another program's command line and none of ours.
int TakeCommand(int argc, char** argv, std::vector<std::string>& command) {
  if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  if (dashes != end) command.assign(dashes + 1, end);
  return static_cast<int>(dashes - argv);
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
  CLI::App app(
      "Penstock limits rates and concurrency: it answers, for a whole fleet, whether a request may go now.",
      "penstock");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("penstock ") + PENSTOCK_VERSION);
  ServeFlags serve;
  CheckFlags check;
  PermitFlags acquire;
  ReleaseFlags release;
  RenewFlags renew;
  HoldersFlags holders;
  RunFlags run;
  LimitsFlags limits;
  LintFlags lint;
  BenchFlags bench;
  VerifyFlags verify;
  bool version_json = false;
  AddServe(app, serve);
  AddCheck(app, check);
  AddPermits(app, acquire, release, renew, holders, run);
  AddLimits(app, limits);
  AddLint(app, lint);
  AddBench(app, bench);
  AddVerify(app, verify);
  app.add_subcommand("version", "print the version")->add_flag("--json", version_json, "print it as JSON");
  RefuseEmptyValues(app);
  try {
    app.parse(TakeCommand(argc, argv, run.command), argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version; CLI11's own codes are none of ours.
    return app.exit(error) == 0 ? kExitFine : kExitUsage;
  }
  if (app.got_subcommand("serve")) return RunServe(serve);
  if (app.got_subcommand("check")) return RunCheck(check);
  if (app.got_subcommand("acquire")) return RunAcquire(acquire);
  if (app.got_subcommand("release")) return RunRelease(release);
  if (app.got_subcommand("renew")) return RunRenew(renew);
  if (app.got_subcommand("holders")) return RunHolders(holders);
  if (app.got_subcommand("run")) return RunRun(run);
  if (app.got_subcommand("limits")) return RunLimits(limits);
  if (app.got_subcommand("lint")) return RunLint(lint);
  if (app.got_subcommand("bench")) return RunBench(bench);
  if (app.got_subcommand("verify")) return RunVerify(verify);
  return RunVersion(version_json);
}

}  // namespace penstock::app
