#include "redis/traffic.h"

#include <algorithm>
#include <sstream>

#include "core/params.h"
#include "penstock/request.h"

namespace penstock::fixtures {
namespace {

using core::Algorithm;
using core::testing::Scenario;
using core::testing::ScenarioLimit;
using Kind = TrafficStep::Kind;

constexpr size_t kMostLimits = 5;

bool Chance(Random& random, uint64_t percent) { return random.Below(100) < percent; }

Kind PickKind(Random& random) {
  // Of 200. What is left are checks.
  struct Share {
    Kind kind;
    uint64_t count;
  };
  constexpr Share kShares[] = {{Kind::kNamed, 20},    {Kind::kRepeat, 8},     {Kind::kConflict, 3},
                               {Kind::kSettle, 14},   {Kind::kUndoNamed, 4},  {Kind::kAdjust, 10},
                               {Kind::kUndo, 8},      {Kind::kReset, 2},      {Kind::kStale, 6},
                               {Kind::kLate, 3},      {Kind::kWrongEdges, 2}, {Kind::kForeign, 1},
                               {Kind::kForeignId, 1}, {Kind::kNewer, 1}};
  uint64_t dice = random.Below(200);
  for (const Share& share : kShares) {
    if (dice < share.count) return share.kind;
    dice -= share.count;
  }
  return Kind::kCheck;
}

std::vector<int> PickLimits(Random& random, size_t count) {
  std::vector<int> all;
  for (size_t i = 0; i < count; ++i) all.push_back(static_cast<int>(i));
  for (size_t i = count - 1; i > 0; --i) std::swap(all[i], all[random.Below(i + 1)]);
  const size_t most = std::min<size_t>(count, core::testing::kMaxScenarioLimits);
  all.resize(Chance(random, 60) ? 1 : 1 + random.Below(most));
  return all;
}

TrafficStep PickTrafficStep(Random& random, const Traffic& traffic) {
  TrafficStep step;
  step.kind = PickKind(random);
  step.limits = PickLimits(random, traffic.limits.size());
  Scenario scenario;
  for (const int i : step.limits) scenario.limits.push_back(traffic.limits[static_cast<size_t>(i)]);
  step.step = PickStep(random, scenario);
  step.together = Chance(random, 40);
  step.by_group = Chance(random, 20);
  step.dry = Chance(random, 4);
  step.back = static_cast<int>(random.Below(4));
  step.variant = static_cast<int>(random.Below(8));
  if (Chance(random, 30)) {  // more than time gives back
    step.step.clock = core::testing::Step::Clock::kForward;
    step.step.amount = 0;
  }
  if (Chance(random, 10)) step.step.max_wait_us = random.Between(1, 60'000'000);
  if (Chance(random, 4)) {
    step.step.force = true;
    step.step.cost[0] = kMaxCost;
  }
  if (step.kind == Kind::kCheck && Chance(random, 40)) {  // a plain one
    step.limits.resize(1);
    step.step.max_wait_us = 0;
    step.step.force = step.step.partial = step.dry = false;
    step.step.cost[0] = std::max<int64_t>(step.step.cost[0], 1);
  }
  return step;
}

// Shows or reads fields in one order, so that Print and Parse cannot differ.
class Writer {
 public:
  template <class Number>
  void operator()(Number& number) {
    out_ << " " << static_cast<int64_t>(number);
  }
  std::string str() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

class Reader {
 public:
  explicit Reader(std::istream& in) : in_(in) {}
  template <class Number>
  void operator()(Number& number) {
    int64_t value = 0;
    in_ >> value;
    number = static_cast<Number>(value);
  }

 private:
  std::istream& in_;
};

template <class Archive>
void Fields(Archive& archive, core::RateSpec& spec) {
  archive(spec.algorithm);
  archive(spec.window);
  archive(spec.kind);
  archive(spec.count);
  archive(spec.period.count);
  int64_t burst = spec.burst.value_or(-1);
  archive(burst);
  spec.burst = burst < 0 ? std::nullopt : std::optional(burst);
}

template <class Archive>
void Fields(Archive& archive, ScenarioLimit& limit) {
  Fields(archive, limit.spec);
  archive(limit.ad_hoc);
  archive(limit.shadow);
  archive(limit.unit);
  size_t later = limit.later.size();
  archive(later);
  limit.later.resize(later);
  for (core::RateSpec& spec : limit.later) Fields(archive, spec);
}

template <class Archive>
void Fields(Archive& archive, TrafficStep& step) {
  archive(step.kind);
  size_t limits = step.limits.size();
  archive(limits);
  step.limits.resize(std::min<size_t>(limits, core::testing::kMaxScenarioLimits));
  for (size_t i = 0; i < step.limits.size(); ++i) {
    archive(step.limits[i]);
    archive(step.step.cost[i]);
  }
  archive(step.together);
  archive(step.by_group);
  archive(step.dry);
  archive(step.back);
  archive(step.variant);
  archive(step.step.clock);
  archive(step.step.amount);
  archive(step.step.max_wait_us);
  archive(step.step.force);
  archive(step.step.partial);
  archive(step.step.change);
  archive(step.step.delta);
}

bool Names(const TrafficStep& step, int limit) {
  return std::ranges::find(step.limits, limit) != step.limits.end();
}

Traffic WithoutLastLimit(Traffic traffic) {
  const auto last = static_cast<int>(traffic.limits.size()) - 1;
  traffic.limits.pop_back();
  std::erase_if(traffic.steps, [last](const TrafficStep& step) { return Names(step, last); });
  return traffic;
}

// Without `count` steps; the next one moves the clock as they did, where that does not depend on answers.
Traffic WithoutSteps(const Traffic& traffic, size_t at, size_t count) {
  Traffic fewer = traffic;
  const auto begin = fewer.steps.begin() + static_cast<std::ptrdiff_t>(at);
  fewer.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  return fewer;
}

}  // namespace

Traffic MakeTraffic(uint64_t seed, int steps) {
  Random random(seed);
  Traffic traffic;
  traffic.seed = seed;
  traffic.start_us = 1'785'000'000'000'000 + random.Between(0, 1'000'000'000);
  traffic.first_version = Chance(random, 50) ? 1 : traffic.start_us;
  const auto algorithm = static_cast<Algorithm>(random.Below(4));
  const size_t limits = 1 + random.Below(kMostLimits);
  const bool alike = Chance(random, 50);  // so that one plain script sees several
  for (size_t i = 0; i < limits; ++i) {
    const auto other = static_cast<Algorithm>(random.Below(4));
    traffic.limits.push_back(core::testing::PickLimit(random, alike || i == 0 ? algorithm : other));
    ScenarioLimit& limit = traffic.limits.back();
    const uint64_t dice = random.Below(40);
    if (dice == 0) limit.spec.kind = core::RateKind::kUnlimited;
    if (dice == 1) limit.spec.kind = core::RateKind::kZero;
    if (dice < 2) limit.later = {limit.spec};
  }
  for (int i = 0; i < steps; ++i) traffic.steps.push_back(PickTrafficStep(random, traffic));
  return traffic;
}

Traffic Shrink(Traffic traffic, const std::function<bool(const Traffic&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t chunk = std::max<size_t>(traffic.steps.size() / 2, 1); chunk > 0; chunk /= 2) {
      for (size_t at = 0; at + chunk <= traffic.steps.size();) {
        Traffic fewer = WithoutSteps(traffic, at, chunk);
        if (fails(fewer)) {
          traffic = std::move(fewer);
          smaller = true;
        } else {
          at += chunk;
        }
      }
    }
    while (traffic.limits.size() > 1) {
      Traffic fewer = WithoutLastLimit(traffic);
      if (!fails(fewer)) break;
      traffic = std::move(fewer);
      smaller = true;
    }
  }
  return traffic;
}

std::string Print(const Traffic& traffic) {
  Traffic copy = traffic;
  Writer head;
  head(copy.seed);
  head(copy.start_us);
  head(copy.first_version);
  std::string text =
      "# limit: algorithm window kind count period burst ad-hoc shadow unit; later ones\n"
      "# step: kind; limits and costs; together by-group dry back variant clock amount max-wait force "
      "partial change delta\ntraffic" +
      head.str() + "\n";
  for (ScenarioLimit& limit : copy.limits) {
    Writer out;
    Fields(out, limit);
    text += "limit" + out.str() + "\n";
  }
  for (TrafficStep& step : copy.steps) {
    Writer out;
    Fields(out, step);
    text += "step" + out.str() + " # " + NameOf(step.kind) + "\n";
  }
  return text;
}

std::optional<Traffic> Parse(const std::string& text) {
  Traffic traffic;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line.substr(0, line.find('#')));
    Reader read(in);
    std::string word;
    if (!(in >> word)) continue;
    if (word == "traffic") {
      read(traffic.seed);
      read(traffic.start_us);
      read(traffic.first_version);
    } else if (word == "limit") {
      Fields(read, traffic.limits.emplace_back());
    } else if (word == "step") {
      Fields(read, traffic.steps.emplace_back());
    } else {
      return std::nullopt;
    }
    if (!in) return std::nullopt;
  }
  if (traffic.limits.empty()) return std::nullopt;
  return traffic;
}

const char* NameOf(Kind kind) {
  constexpr const char* kNames[TrafficStep::kKinds] = {
      "check", "named", "repeat", "conflict",    "settle",  "undo named", "adjust",      "undo",
      "reset", "stale", "late",   "wrong edges", "foreign", "foreign id", "newer layout"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace penstock::fixtures
