#include "api/resp_check.h"

#include <string>

#include "api/ad_hoc_limit.h"
#include "api/milliseconds.h"
#include "api/resp_arguments.h"
#include "api/resp_optional.h"

namespace penstock::api {
namespace {

// What an option reads into.
struct Target {
  Arguments& args;
  RespCheckScratch& scratch;
  CheckOptions& options;
  bool has_cost = false;
};

Result<void> ReadCosts(Target& t) {
  const Result<int64_t> units = t.args.TakeNumber("COSTS", 1, kMaxUnitsPerRequest);
  if (!units) return tl::unexpected(units.error());
  for (int64_t i = 0; i < *units; ++i) {
    if (t.args.size() < 2) return Invalid("COSTS: fewer units and costs than announced");
    UnitCost cost;
    cost.unit = t.args.Take();
    if (Result<void> read = Number(t.args, "COSTS", -kMaxCost, kMaxCost, cost.cost); !read) return read;
    t.scratch.costs.push_back(cost);
  }
  return {};
}

constexpr Option<Target> kOptions[] = {
    {"cost",
     [](Target& t) {
       t.has_cost = true;
       return Number(t.args, "COST", -kMaxCost, kMaxCost, t.options.cost);
     }},
    {"costs", ReadCosts},
    {"weight", [](Target& t) { return Number(t.args, "WEIGHT", 1, kMaxCost, t.options.weight); }},
    {"wait", [](Target& t) { return Number(t.args, "WAIT", 0, kMaxWaitMs, t.options.max_wait); }},
    {"force",
     [](Target& t) -> Result<void> {
       t.options.force = true;
       return {};
     }},
    {"partial",
     [](Target& t) -> Result<void> {
       t.options.partial = true;
       return {};
     }},
    {"requestid",
     [](Target& t) { return Text(t.args, "REQUESTID", kMaxRequestIdBytes, t.options.request_id); }},
    {"holder", [](Target& t) { return Text(t.args, "HOLDER", kMaxHolderBytes, t.options.holder); }},
    {"lease", [](Target& t) { return Number(t.args, "LEASE", kMinLeaseMs, kMaxLeaseMs, t.options.lease); }},
};

}  // namespace

Result<void> ReadRespCheck(std::span<const std::string_view> args, RespCheckScratch& scratch,
                           service::Request& request) {
  scratch.attributes.clear();
  scratch.costs.clear();
  request.domain = args[1];
  Arguments left(args.subspan(2));
  const Result<int64_t> pairs = left.TakeNumber("npairs", 0, kMaxAttributesPerRequest);
  if (!pairs) return tl::unexpected(pairs.error());
  for (int64_t i = 0; i < *pairs; ++i) {
    if (left.size() < 2) return Invalid("fewer attributes than npairs announces");
    const std::string_view name = left.Take();
    scratch.attributes.push_back({name, left.Take()});
  }
  Target target{left, scratch, request.options};
  if (Result<void> read = ReadOptions<Target>(kOptions, target); !read) return read;
  if (target.has_cost && !scratch.costs.empty()) return Invalid("COST and COSTS exclude each other");
  request.attributes = scratch.attributes;
  request.options.costs = scratch.costs;
  return {};
}

void WriteRespCheck(resp::Writer& writer, const Decision& decision) {
  constexpr size_t kFields = 14;
  writer.Array(kFields);
  writer.Integer(decision.allowed ? 1 : 0);
  writer.Bulk(ToString(decision.outcome));
  WriteOptional(writer, decision.limit);
  WriteOptional(writer, decision.remaining);
  WriteOptional(writer, RetryAfterMs(decision));
  writer.Integer(ToCeilMs(decision.reset_after));
  writer.Integer(ToCeilMs(decision.wait));
  writer.Integer(decision.degraded ? 1 : 0);
  if (decision.permit) {
    writer.Bulk(decision.permit->id.view());
    writer.Integer(ToFloorMs(decision.permit->expires_in));
    WriteOptional(writer, decision.permit->fence);
  } else {
    for (int i = 0; i < 3; ++i) writer.Null();
  }
  if (decision.taken.empty()) {
    writer.Null();
  } else {
    writer.Array(decision.taken.size() * 2);
    for (const TakenUnit& taken : decision.taken) {
      writer.Bulk(taken.unit);
      writer.Integer(taken.taken);
    }
  }
  writer.Integer(decision.replayed ? 1 : 0);
  writer.Integer(decision.replayable ? 1 : 0);
}

}  // namespace penstock::api
