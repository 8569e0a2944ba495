#include "core/testing/scenario.h"

#include <algorithm>
#include <sstream>

#include "core/testing/bucket_book.h"
#include "penstock/request.h"

namespace penstock::core::testing {
namespace {

constexpr int64_t kDayUs = 86'400'000'000;
constexpr int64_t kEdgesBefore = 100;  // calendar windows before and after a scenario's start
constexpr int64_t kEdgesAfter = 300;

template <size_t N>
int64_t Pick(Random& random, const int64_t (&values)[N]) {
  return values[random.Below(N)];
}

bool Chance(Random& random, uint64_t percent) { return random.Below(100) < percent; }

int64_t PickCount(Random& random, Algorithm algorithm) {
  constexpr int64_t kCounts[] = {1, 1, 2, 3, 5, 7, 10, 10, 30, 60, 100, 997, 1'000};
  if (algorithm == Algorithm::kSlidingLog || Chance(random, 75)) return Pick(random, kCounts);
  return random.Between(1, Chance(random, 50) ? 1'000'000 : 2'147'483'647);
}

int64_t PickPeriod(Random& random) {
  constexpr int64_t kPeriods[] = {1'000,         10'000, 1'000'000,   10'000'000,  60'000'000,
                                  3'600'000'000, kDayUs, 30 * kDayUs, 365 * kDayUs};
  switch (random.Below(4)) {
    case 0:
      return random.Between(1, 50);
    case 1:
      return random.Between(1, 20'000'000);
    default:
      return Pick(random, kPeriods);
  }
}

RateSpec PickSpec(Random& random, Algorithm algorithm, WindowKind window) {
  for (;;) {
    RateSpec spec{.algorithm = algorithm, .window = window};
    spec.count = PickCount(random, algorithm);
    spec.period = {PickPeriod(random)};
    if (algorithm == Algorithm::kTokenBucket && Chance(random, 60)) {
      spec.burst = random.Between(1, std::min<int64_t>(2 * spec.count, 5'000'000'000));
    }
    if (CompileRate(spec)) return spec;
  }
}

// What a person would change: the count, the burst, both count and period alike, or everything.
RateSpec PickLater(Random& random, const RateSpec& spec) {
  for (;;) {
    RateSpec later = spec;
    const int64_t factor = random.Between(2, 5);
    switch (random.Below(5)) {
      case 0:
        later.count = std::max<int64_t>(1, spec.count / factor);
        break;
      case 1:
        later.count = spec.count * factor;
        break;
      case 2:
        later.count = spec.count * factor;
        later.period = spec.period * factor;
        break;
      case 3:
        later.period = {std::max<int64_t>(1, spec.period.count / factor)};
        break;
      default:
        later = PickSpec(random, spec.algorithm, spec.window);
    }
    if (spec.algorithm == Algorithm::kTokenBucket && Chance(random, 40)) later.burst = random.Between(1, 100);
    if (spec.algorithm == Algorithm::kSlidingLog && later.count > 2'000) continue;
    if (CompileRate(later)) return later;
  }
}

}  // namespace

ScenarioLimit PickLimit(Random& random, Algorithm algorithm) {
  ScenarioLimit limit;
  auto window = WindowKind::kEpoch;
  if (algorithm == Algorithm::kFixedWindow) {
    constexpr WindowKind kKinds[] = {WindowKind::kEpoch, WindowKind::kEpoch, WindowKind::kFirstRequest,
                                     WindowKind::kDay};
    window = kKinds[random.Below(4)];
  }
  limit.spec = PickSpec(random, algorithm, window);
  for (int i = 0; i < 4; ++i) limit.later.push_back(PickLater(random, limit.spec));
  limit.ad_hoc = Chance(random, 30);
  limit.shadow = Chance(random, 20);
  limit.unit = static_cast<uint8_t>(random.Below(2));
  return limit;
}

namespace {

int64_t CapacityOf(const RateSpec& spec) { return CompileRate(spec)->capacity; }
int64_t PeriodOf(const RateSpec& spec) { return CompileRate(spec)->period.count; }

int64_t PickCost(Random& random, int64_t capacity) {
  const uint64_t dice = random.Below(100);
  int64_t cost = 1;
  if (dice < 8) cost = 0;
  if (dice >= 40 && dice < 52) cost = random.Between(2, 5);
  if (dice >= 52 && dice < 72) cost = random.Between(1, capacity);
  if (dice >= 72 && dice < 78) cost = capacity;
  if (dice >= 78 && dice < 82) cost = capacity + 1;
  if (dice >= 82 && dice < 90) cost = random.Between(-5, -1);
  if (dice >= 90 && dice < 95) cost = -random.Between(1, capacity);
  if (dice == 95) cost = kMaxCost;
  if (dice == 96) cost = -kMaxCost;
  return std::clamp(cost, -kMaxCost, kMaxCost);
}

void PickClock(Random& random, const RateSpec& spec, Step& step) {
  const int64_t period = PeriodOf(spec);
  const int64_t pace = std::max<int64_t>(1, period / spec.count);
  constexpr int64_t kNear[] = {-1, 0, 0, 1};
  const uint64_t dice = random.Below(100);
  if (dice < 25) step = {.clock = Step::Clock::kRetry, .amount = Pick(random, kNear)};
  if (dice >= 25 && dice < 31) step = {.clock = Step::Clock::kReset, .amount = Pick(random, kNear)};
  if (dice >= 31 && dice < 46) step.amount = 0;
  if (dice >= 46 && dice < 50) step.amount = random.Between(1, 3);
  if (dice >= 50 && dice < 75) step.amount = random.Between(0, 2 * pace);
  if (dice >= 75 && dice < 86) step.amount = random.Between(0, period);
  if (dice >= 86 && dice < 90) step.amount = random.Between(0, 3 * period);
  if (dice >= 90 && dice < 95) step.amount = -random.Between(1, 2 * pace);
  if (dice >= 95) step.amount = -random.Between(1, 2 * period);
}

}  // namespace

Step PickStep(Random& random, const Scenario& scenario) {
  Step step;
  const RateSpec& first = scenario.limits[0].spec;
  PickClock(random, first, step);
  const auto count = static_cast<uint64_t>(scenario.limits.size());
  step.cost[0] = PickCost(random, CapacityOf(first));
  const bool alike = Chance(random, 70);
  for (size_t i = 1; i < count; ++i) {
    step.cost[i] = alike ? step.cost[0] : PickCost(random, CapacityOf(scenario.limits[i].spec));
  }
  constexpr int64_t kWaits[] = {1, 1'000, 1'000'000, 60'000'000};
  if (Chance(random, 15)) step.max_wait_us = Pick(random, kWaits);
  if (Chance(random, 5)) step.max_wait_us = random.Between(1, 60'000'000);
  step.force = Chance(random, 6);
  step.partial = Chance(random, 12);
  if (Chance(random, 6)) step.change = static_cast<int>(random.Below(count));
  if (Chance(random, 8)) {
    step.adjust = static_cast<int>(random.Below(count));
    step.charge = static_cast<uint32_t>(random.Below(4));
    if (Chance(random, 60)) step.delta = PickCost(random, CapacityOf(first)) * (Chance(random, 50) ? -1 : 1);
  }
  return step;
}

ModelSpec ToModel(const RateSpec& spec, const std::vector<int64_t>& edges) {
  ModelSpec model{.count = spec.count, .period_us = spec.period.count, .burst = spec.burst.value_or(0)};
  switch (spec.algorithm) {
    case Algorithm::kTokenBucket:
      model.kind = ModelKind::kTokenBucket;
      break;
    case Algorithm::kSlidingWindow:
      model.kind = ModelKind::kSlidingWindow;
      break;
    case Algorithm::kSlidingLog:
      model.kind = ModelKind::kSlidingLog;
      break;
    default:
      model.kind = ModelKind::kFixedEpoch;
  }
  if (spec.window == WindowKind::kFirstRequest) model.kind = ModelKind::kFixedFirstRequest;
  if (IsCalendar(spec.window)) {
    model.kind = ModelKind::kFixedCalendar;
    model.edges = edges;
  }
  if (spec.kind == RateKind::kZero) model.kind = ModelKind::kZero;
  if (spec.kind == RateKind::kUnlimited) model.kind = ModelKind::kUnlimited;
  return model;
}

namespace {

struct Pair {
  Pair(const ScenarioLimit& limit, const std::vector<int64_t>& edges)
      : core(limit.spec, limit.ad_hoc ? 0 : 1), model(ToModel(limit.spec, edges)) {
    core.limit.shadow = limit.shadow;
  }
  struct Charged {
    Charge core;
    ModelCharge model;
    int generation;
  };
  TestLimit core;
  Model model;
  int generation = 0;  // how often the parameters were changed
  std::vector<Charged> charges;
};

}  // namespace

std::string Show(const Verdict& v) {
  std::ostringstream out;
  out << ToString(v.outcome) << " limit " << v.limit << " remaining " << v.remaining << " taken " << v.taken
      << " retry " << v.retry_after.count << " reset " << v.reset_after.count << " wait " << v.wait.count
      << (v.saturated ? " saturated" : "");
  return out.str();
}

Verdict FromModel(const ModelVerdict& model) {
  Verdict verdict;
  verdict.outcome = model.outcome == ModelOutcome::kAllowed  ? Outcome::kAllowed
                    : model.outcome == ModelOutcome::kDenied ? Outcome::kDenied
                                                             : Outcome::kNever;
  verdict.limit = model.limit;
  verdict.remaining = model.remaining;
  verdict.taken = model.taken;
  verdict.retry_after = {model.retry_after_us};
  verdict.reset_after = {model.reset_after_us};
  verdict.wait = {model.wait_us};
  verdict.saturated = model.saturated;
  return verdict;
}

namespace {

// One play of a scenario.
class Player {
 public:
  Player(const Scenario& scenario, const DecideFunction& decide, Tally* tally)
      : scenario_(scenario), decide_(decide), tally_(tally), now_us_(scenario.start_us) {
    Random random(scenario.seed ^ 0x9d5c);
    edges_ = PickEdges(random, scenario.start_us);
    for (const ScenarioLimit& limit : scenario.limits) pairs_.emplace_back(limit, edges_);
  }

  std::optional<std::string> Run() {
    for (size_t i = 0; i < scenario_.steps.size(); ++i) {
      const Step& step = scenario_.steps[i];
      MoveClock(step);
      if (step.change >= 0 && static_cast<size_t>(step.change) < pairs_.size()) Change(step.change);
      const bool adjusts = step.adjust >= 0 && static_cast<size_t>(step.adjust) < pairs_.size();
      std::string difference = adjusts ? Adjust(step) : Decide(step);
      for (const Pair& pair : pairs_) {
        if (difference.empty()) difference = BrokenInvariant(pair.core);
      }
      if (!difference.empty()) return "step " + std::to_string(i) + ": " + difference;
      if (tally_ != nullptr) ++tally_->steps;
    }
    return std::nullopt;
  }

 private:
  void MoveClock(const Step& step) {
    const Micros period{PeriodOf(scenario_.limits[0].spec)};
    const int64_t moved = InstantOf(step, now_us_, retry_, reset_, period);
    const bool calendar = std::ranges::any_of(
        scenario_.limits, [](const ScenarioLimit& limit) { return IsCalendar(limit.spec.window); });
    const int64_t low = calendar ? edges_[2] : 0;
    const int64_t high = calendar ? edges_[edges_.size() - 4] : kMaxExact;
    now_us_ = std::clamp(moved, low, high);
  }

  void Change(int index) {
    Pair& pair = pairs_[static_cast<size_t>(index)];
    const ScenarioLimit& limit = scenario_.limits[static_cast<size_t>(index)];
    const size_t next = static_cast<size_t>(pair.generation++) % limit.later.size();
    pair.core.Change(limit.later[next]);
    ModelSpec spec = ToModel(limit.later[next], edges_);
    limit.ad_hoc ? pair.model.ChangeAdHoc(std::move(spec)) : pair.model.Change(std::move(spec));
    if (tally_ != nullptr) ++tally_->converted;
  }

  std::string Decide(const Step& step) {
    const WindowBoundaries boundaries = BoundariesAt(edges_, now_us_);
    const GroupOptions options{.max_wait = {step.max_wait_us}, .force = step.force, .partial = step.partial};
    std::vector<Operation> operations;
    std::vector<ModelRequest> requests;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      Operation operation = pairs_[i].core.Ask(step.cost[i]);
      operation.boundaries = &boundaries;
      operation.unit = scenario_.limits[i].unit;
      operations.push_back(operation);
      requests.push_back({&pairs_[i].model, step.cost[i], operation.unit, scenario_.limits[i].shadow});
    }
    if (decide_(operations, options, {now_us_}) != GroupStatus::kDecided) return "not decided";
    const auto expected = DecideTogether(
        requests, {.max_wait_us = step.max_wait_us, .force = step.force, .partial = step.partial}, now_us_);
    for (size_t i = 0; i < pairs_.size(); ++i) {
      std::string difference = Compare(i, operations[i], FromModel(expected[i]));
      if (!difference.empty()) return difference;
      Count(operations[i].verdict);
      const bool migrates = operations[i].bucket.version < operations[i].limit->version;
      if (operations[i].verdict.taken == 0 && operations[i].edit.write && !migrates) {
        return "limit " + std::to_string(i) + " writes though nothing was taken";
      }
      pairs_[i].core.bucket.Apply(*operations[i].limit, operations[i].edit);
      if (operations[i].charge.cost != 0) {
        pairs_[i].charges.push_back({operations[i].charge, pairs_[i].model.charge(), pairs_[i].generation});
      }
    }
    retry_ = operations[0].verdict.retry_after;
    reset_ = operations[0].verdict.reset_after;
    return {};
  }

  std::string Adjust(const Step& step) {
    const auto index = static_cast<size_t>(step.adjust);
    Pair& pair = pairs_[index];
    if (step.charge >= pair.charges.size()) return {};
    Pair::Charged& charged = pair.charges[pair.charges.size() - 1 - step.charge];
    if (scenario_.limits[index].ad_hoc && charged.generation != pair.generation) return {};
    const int64_t delta = step.delta != 0 ? step.delta : -charged.core.cost;
    const WindowBoundaries boundaries = BoundariesAt(edges_, now_us_);
    Operation operation = pair.core.Ask(0);
    operation.boundaries = &boundaries;
    AdjustCharge(operation, charged.core, delta, {now_us_});
    const Verdict expected = FromModel(pair.model.Adjust(charged.model, delta, now_us_));
    const bool migrates = operation.bucket.version < operation.limit->version;
    if (operation.charge.cost == charged.core.cost && operation.edit.write && !migrates) {
      return "a charge that stays as it is writes";
    }
    pair.core.bucket.Apply(*operation.limit, operation.edit);
    charged.core = operation.charge;
    charged.model = pair.model.charge();
    if (tally_ != nullptr) ++tally_->adjusted;
    return Compare(index, operation, expected);
  }

  std::string Compare(size_t index, const Operation& operation, const Verdict& expected) const {
    const std::string mine = Show(operation.verdict), judge = Show(expected);
    const std::string at = "limit " + std::to_string(index) + " at " + std::to_string(now_us_);
    if (mine != judge) return at + "\n  rules: " + mine + "\n  judge: " + judge;
    const ModelCharge& charge = pairs_[index].model.charge();
    if (operation.charge.cost != charge.cost) return at + ": another charge";
    if (charge.cost != 0 &&
        (operation.charge.at.us != charge.at_us || operation.charge.window.us != charge.window_us)) {
      return at + ": the charge stands elsewhere";
    }
    const int64_t most = std::max<int64_t>(operation.verdict.limit, 0);
    if (expected.limit >= 0 && (operation.verdict.remaining < 0 || operation.verdict.remaining > most)) {
      return at + ": remaining outside the limit";
    }
    return {};
  }

  static std::string BrokenInvariant(const TestLimit& core) {
    const BucketState& state = core.bucket.state();
    if (state.value < 0 || state.value > kMaxExact || state.before < 0) return "state out of range";
    if (core.limit.params.algorithm != Algorithm::kSlidingLog || !core.bucket.present()) return {};
    const std::vector<LogRun>& runs = core.bucket.runs();
    int64_t sum = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      sum += runs[i].weight;
      if (runs[i].weight < 1) return "a run without weight";
      if (i > 0 && runs[i].at <= runs[i - 1].at) return "runs out of order";
    }
    if (sum != state.value) return "a log's sum is not that of its runs";
    if (!runs.empty() && runs.back().at != state.stamp) return "a log's stamp is not its newest run";
    return runs.size() > static_cast<size_t>(kMaxLogCount) ? "too many runs" : "";
  }

  void Count(const Verdict& verdict) {
    if (tally_ == nullptr) return;
    tally_->allowed += verdict.outcome == Outcome::kAllowed ? 1 : 0;
    tally_->denied += verdict.outcome == Outcome::kDenied ? 1 : 0;
    tally_->never += verdict.outcome == Outcome::kNever ? 1 : 0;
    tally_->waited += verdict.wait.count > 0 ? 1 : 0;
    tally_->saturated += verdict.saturated ? 1 : 0;
  }

  const Scenario& scenario_;
  const DecideFunction& decide_;
  Tally* const tally_;
  int64_t now_us_;
  Micros retry_, reset_;
  std::vector<int64_t> edges_;
  std::vector<Pair> pairs_;
};

}  // namespace

std::vector<int64_t> PickEdges(Random& random, int64_t around_us) {
  std::vector<int64_t> edges;
  for (int64_t i = -kEdgesBefore; i < kEdgesAfter; ++i) {
    edges.push_back(around_us + i * kDayUs + random.Between(-3'600'000'000, 3'600'000'000));
  }
  return edges;
}

WindowBoundaries BoundariesAt(const std::vector<int64_t>& edges, int64_t now_us) {
  const int64_t estimate = now_us + (now_us % 3 - 1) * 15'000'000'000;
  const auto next = std::ranges::upper_bound(edges, estimate) - edges.begin();
  // Without a calendar in the scenario the clock may be anywhere, and nobody looks at the edges.
  const size_t at = std::clamp<size_t>(static_cast<size_t>(next), 2, edges.size() - 2);
  return {{edges[at - 2]}, {edges[at - 1]}, {edges[at]}, {edges[at + 1]}};
}

Scenario MakeScenario(uint64_t seed, Algorithm algorithm, int steps) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.start_us = Chance(random, 90) ? 1'785'000'000'000'000 + random.Between(0, 1'000'000'000)
                                         : kEdgesBefore * kDayUs * 2 + random.Between(0, 1'000'000);
  scenario.limits.push_back(PickLimit(random, algorithm));
  scenario.limits[0].shadow = false;
  for (uint64_t i = Chance(random, 60) ? 0 : 1 + random.Below(2); i > 0; --i) {
    scenario.limits.push_back(PickLimit(random, static_cast<Algorithm>(random.Below(4))));
    const uint64_t dice = random.Below(20);
    if (dice == 0) scenario.limits.back().spec.kind = RateKind::kUnlimited;
    if (dice == 1) scenario.limits.back().spec.kind = RateKind::kZero;
    if (dice < 2) scenario.limits.back().later = {scenario.limits.back().spec};
  }
  for (int i = 0; i < steps; ++i) scenario.steps.push_back(PickStep(random, scenario));
  return scenario;
}

std::optional<std::string> Play(const Scenario& scenario, const DecideFunction& decide, Tally* tally) {
  return Player(scenario, decide, tally).Run();
}

int64_t InstantOf(const Step& step, int64_t now_us, Micros last_retry, Micros last_reset, Micros period) {
  const Micros horizon = period * 4;
  int64_t move = step.amount;
  if (step.clock == Step::Clock::kRetry && last_retry <= horizon) move += last_retry.count;
  if (step.clock == Step::Clock::kReset && last_reset <= horizon) move += last_reset.count;
  return now_us + move;
}

Scenario Shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails) {
  while (scenario.limits.size() > 1) {
    Scenario fewer = scenario;
    fewer.limits.pop_back();
    if (!fails(fewer)) break;
    scenario = std::move(fewer);
  }
  for (size_t chunk = scenario.steps.size() / 2; chunk > 0; chunk /= 2) {
    for (size_t at = 0; at + chunk <= scenario.steps.size();) {
      Scenario fewer = scenario;
      const auto begin = fewer.steps.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(chunk));
      if (fails(fewer)) {
        scenario = std::move(fewer);
      } else {
        at += chunk;
      }
    }
  }
  return scenario;
}

std::string Describe(const Scenario& scenario) {
  std::ostringstream out;
  out << "seed " << scenario.seed << " start " << scenario.start_us << "\n";
  const auto show = [&](const RateSpec& spec) {
    out << spec.count << "/" << spec.period.count << "us burst " << spec.burst.value_or(-1) << "; ";
  };
  for (const ScenarioLimit& limit : scenario.limits) {
    out << "limit algorithm " << static_cast<int>(limit.spec.algorithm) << " window "
        << static_cast<int>(limit.spec.window) << " kind " << static_cast<int>(limit.spec.kind)
        << (limit.ad_hoc ? " ad hoc" : "") << (limit.shadow ? " shadow" : "") << " unit "
        << static_cast<int>(limit.unit) << ": ";
    show(limit.spec);
    out << "later ";
    for (const RateSpec& later : limit.later) show(later);
    out << "\n";
  }
  for (const Step& step : scenario.steps) {
    constexpr const char* kClocks[] = {"+", "retry +", "reset +"};
    out << kClocks[static_cast<int>(step.clock)] << step.amount << " cost";
    for (const int64_t cost : step.cost) out << " " << cost;
    if (step.max_wait_us > 0) out << " max_wait " << step.max_wait_us;
    if (step.force) out << " force";
    if (step.partial) out << " partial";
    if (step.change >= 0) out << " change " << step.change;
    if (step.adjust >= 0) out << " adjust " << step.adjust << " of " << step.charge << " by " << step.delta;
    out << "\n";
  }
  return out.str();
}

}  // namespace penstock::core::testing
