#include "api/resp_check.h"

#include <string>

#include "api/milliseconds.h"
#include "base/ascii.h"
#include "base/bytes.h"
#include "resp/commands.h"

namespace penstock::api {
namespace {

// The arguments that are left, taken from the front.
class Arguments {
 public:
  explicit Arguments(std::span<const std::string_view> args) : left_(args) {}
  bool empty() const { return left_.empty(); }
  size_t size() const { return left_.size(); }
  std::string_view Take() {
    const std::string_view front = left_.front();
    left_ = left_.subspan(1);
    return front;
  }
  Result<int64_t> TakeNumber(const char* name, int64_t least, int64_t most) {
    if (empty()) return Invalid(std::string(name) + " needs a number");
    const std::optional<int64_t> value = ParseInt(Take());
    if (!value) return Invalid(std::string(name) + " must be a whole number");
    if (*value < least || *value > most) {
      return Invalid(std::string(name) + " must be from " + std::to_string(least) + " to " +
                     std::to_string(most));
    }
    return *value;
  }

 private:
  std::span<const std::string_view> left_;
};

// What an option reads into, and which came already: an option stands at most once.
struct Target {
  Arguments& args;
  RespCheckScratch& scratch;
  CheckOptions& options;
  bool has_cost = false;
};

template <class T>
Result<void> Number(Arguments& args, const char* name, int64_t least, int64_t most, T& into) {
  const Result<int64_t> value = args.TakeNumber(name, least, most);
  if (!value) return tl::unexpected(value.error());
  into = static_cast<T>(*value);
  return {};
}

Result<void> Text(Arguments& args, const char* name, size_t most, std::string_view& into) {
  if (args.empty()) return Invalid(std::string(name) + " needs a value");
  into = args.Take();
  if (into.empty() || into.size() > most) {
    return Invalid(std::string(name) + " must be 1 to " + std::to_string(most) + " bytes");
  }
  return {};
}

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

struct Option {
  std::string_view name;  // in lower case
  Result<void> (*read)(Target& target);
};

constexpr Option kOptions[] = {
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
    {"lease", [](Target& t) { return Number(t.args, "LEASE", 1, kMaxLeaseMs, t.options.lease); }},
};

Result<void> ReadOptions(Target& target) {
  uint32_t seen = 0;
  while (!target.args.empty()) {
    const std::string_view name = target.args.Take();
    uint32_t bit = 1;
    const Option* found = nullptr;
    for (const Option& option : kOptions) {
      if (EqualsIgnoringCase(name, option.name)) {
        found = &option;
        break;
      }
      bit <<= 1;
    }
    if (found == nullptr) return Invalid("syntax error at '" + std::string(name.substr(0, 64)) + "'");
    if ((seen & bit) != 0) return Invalid("'" + std::string(name) + "' stands twice");
    seen |= bit;
    if (Result<void> read = found->read(target); !read) return read;
  }
  if (target.has_cost && !target.scratch.costs.empty()) return Invalid("COST and COSTS exclude each other");
  return {};
}

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
  if (Result<void> read = ReadOptions(target); !read) return read;
  request.attributes = scratch.attributes;
  request.options.costs = scratch.costs;
  return {};
}

namespace {

void WriteOptional(resp::Writer& writer, const std::optional<int64_t>& value) {
  if (value) {
    writer.Integer(*value);
  } else {
    writer.Null();
  }
}

}  // namespace

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
  writer.Null();  // permit id
  writer.Null();  // expires_in_ms
  writer.Null();  // fence
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
