// `penstock verify`: runs the operator's checklist against a live engine and prints what it finds.
#include <cstdio>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "commands.h"
#include "config/source.h"
#include "engine/redis/checkup/checkup.h"
#include "engine/redis/keys.h"
#include "engine/redis/redis_engine.h"
#include "net/loop.h"
#include "progress.h"
#include "server/server.h"

namespace penstock::app {
namespace {

// The engine section of the policy, or its defaults, with the flags over it.
Result<config::EngineOptions> ReadSettings(const VerifyFlags& flags) {
  policy::Diagnostics diagnostics;
  const std::unique_ptr<config::Loaded> loaded =
      config::LoadPath(flags.policy, server::WhatMemoryHolds(), diagnostics);
  if (!loaded) return Invalid(diagnostics.Text());
  config::EngineOptions engine = loaded->engine;
  config::ListenOptions listen = loaded->listen;
  config::Flags over;
  if (!flags.engine.empty()) over.engine = flags.engine;
  if (const Result<void> applied = config::ApplyFlags(over, engine, listen); !applied) {
    return tl::unexpected(applied.error());
  }
  if (!flags.prefix.empty()) engine.prefix = flags.prefix;
  if (const Result<void> good = engine::redis::CheckPrefix(engine.prefix); !good) {
    return tl::unexpected(good.error());
  }
  return engine;
}

int Print(const checkup::Report& report, bool json) {
  std::fputs((json ? ReportJson(report) : ReportText(report)).c_str(), stdout);
  if (!report.unreachable.empty()) return kExitUnavailable;
  return report.HasFindings() ? kExitDenied : kExitFine;
}

}  // namespace

int RunVerify(const VerifyFlags& flags) {
  const Result<config::EngineOptions> settings = ReadSettings(flags);
  if (!settings) return Complain(kExitUsage, settings.error().message);
  if (settings->url == "memory:") return Print(checkup::MemoryReport(settings->url), flags.json);
  const Result<engine::redis::Options> parsed = engine::redis::ParseUrl(settings->url);
  if (!parsed) return Complain(kExitUsage, parsed.error().message);

  net::PrepareProcess();
  SetLogLevel(LogLevel::kError);  // the report says what the connections' log would
  checkup::CheckupOptions options;
  options.engine = *parsed;
  options.engine.prefix = settings->prefix;
  options.timeout = settings->timeout;
  options.acl_user = flags.acl_user;
  options.failover = flags.failover;
  options.max_keys = flags.max_keys;
  const SystemClock clock;
  checkup::Report report;
  {
    Progress progress("verify");
    options.progress = [&](double share, std::string_view doing) { progress.Show(share, doing); };
    engine::redis::RedisEngine engine(options.engine, clock);
    report = RunCheckup(options, engine, clock);
  }
  return Print(report, flags.json);
}

}  // namespace penstock::app
