// `penstock verify`: an operator's checklist, run against a live engine.
//
// What it writes: the scripts are loaded; scratch keys under the prefix, which are dropped again and have a TTL of at
// most two hours. Nothing else is changed, but for the failover that is asked for.
//
// Thread contract: one thread; it blocks for some seconds.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/redis/checkup/report.h"
#include "engine/redis/options.h"

namespace penstock::checkup {

struct CheckupOptions {
  engine::redis::Options engine;
  std::string engine_text;      // the URL as it may be printed
  Micros timeout = Millis(20);  // engine.timeout: what latencies stand beside
  std::string acl_user;         // whose rights are checked; empty: the user of the URL
  bool failover = false;        // really replace a master
  uint64_t max_keys = 100'000;  // that are looked at, a server
  // What is done and how much of all is behind; may be empty.
  std::function<void(double share, std::string_view doing)> progress;
};

// The engine decides by the same options.
Report RunCheckup(const CheckupOptions& options, engine::Engine& engine, const Clock& clock);

// What there is to say of an engine in this process.
Report MemoryReport(std::string_view url);

}  // namespace penstock::checkup
