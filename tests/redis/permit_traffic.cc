#include "redis/permit_traffic.h"

#include <sstream>

#include "base/random.h"

namespace penstock::fixtures {
namespace {

using Kind = PermitStep::Kind;
using Clock = PermitStep::Clock;

bool Chance(Random& random, uint64_t percent) { return random.Below(100) < percent; }

constexpr int64_t kLeases[] = {100'000, 300'000, 1'000'000, 2'500'000, 10'000'000, 600'000'000};

int64_t PickLease(Random& random) { return kLeases[random.Below(std::size(kLeases))]; }

Kind PickKind(Random& random) {
  // Of 100; what is left acquires.
  struct Share {
    Kind kind;
    uint64_t count;
  };
  constexpr Share kShares[] = {{Kind::kNamed, 5},  {Kind::kRepeat, 5}, {Kind::kAskAgain, 12},
                               {Kind::kCall, 20},  {Kind::kList, 4},   {Kind::kReset, 1},
                               {Kind::kReport, 3}, {Kind::kAdjust, 2}, {Kind::kUndo, 3},
                               {Kind::kChange, 2}, {Kind::kStale, 2},  {Kind::kLook, 4}};
  uint64_t dice = random.Below(100);
  for (const Share& share : kShares) {
    if (dice < share.count) return share.kind;
    dice -= share.count;
  }
  return Kind::kAcquire;
}

PermitStep PickPermitStep(Random& random) {
  PermitStep step;
  step.kind = PickKind(random);
  const uint64_t clock = random.Below(100);
  step.clock = clock < 35   ? Clock::kStands
               : clock < 70 ? Clock::kForward
               : clock < 82 ? Clock::kToLapse
               : clock < 92 ? Clock::kBeforeLapse
                            : Clock::kBack;
  step.amount = random.Between(0, Chance(random, 80) ? 200'000 : 4'000'000);
  step.together = Chance(random, 50);
  step.by_group = Chance(random, 20);
  step.dry = Chance(random, 3);
  step.partial = Chance(random, 5);
  step.force = Chance(random, 4);
  step.named_holder = Chance(random, 20);
  step.limits = static_cast<int>(Chance(random, 60) ? random.Below(2) : random.Below(8));
  for (int64_t& cost : step.cost) cost = Chance(random, 70) ? 1 : random.Between(0, 6);
  if (Chance(random, 40)) step.lease = Chance(random, 20) ? 1'000 : PickLease(random);
  if (Chance(random, 45)) step.queue_for = Chance(random, 70) ? 60'000'000 : random.Between(1, 3'000'000);
  step.session = Chance(random, 85) ? 0 : 1;
  step.back = static_cast<int>(random.Below(6));
  step.variant = static_cast<int>(random.Below(1'000));
  return step;
}

}  // namespace

PermitTraffic MakePermitTraffic(uint64_t seed, int steps) {
  Random random(seed);
  PermitTraffic traffic;
  traffic.seed = seed;
  for (size_t i = 0; i < 2; ++i) {
    core::RateSpec& spec = traffic.limits[i];
    spec.algorithm = core::Algorithm::kPermits;
    spec.count = random.Between(1, Chance(random, 80) ? 5 : 12);
    spec.period = {PickLease(random)};
  }
  core::RateSpec& rate = traffic.limits[2];
  rate.algorithm = Chance(random, 50) ? core::Algorithm::kTokenBucket : core::Algorithm::kFixedWindow;
  rate.count = random.Between(1, 50);
  rate.period = Seconds(1);
  traffic.shadow[random.Below(3)] = Chance(random, 20);
  for (int i = 0; i < steps; ++i) traffic.steps.push_back(PickPermitStep(random));
  return traffic;
}

std::string Print(const PermitTraffic& traffic) {
  std::ostringstream out;
  out << "seed " << traffic.seed << "\n";
  for (size_t i = 0; i < traffic.limits.size(); ++i) {
    const core::RateSpec& spec = traffic.limits[i];
    out << "limit " << i << ": algorithm " << static_cast<int>(spec.algorithm) << " count " << spec.count
        << " period " << spec.period.count << (traffic.shadow[i] ? " shadow" : "") << "\n";
  }
  for (const PermitStep& step : traffic.steps) {
    constexpr const char* kClocks[] = {"stands", "forward", "to lapse", "before lapse", "back"};
    out << "  " << NameOf(step.kind) << " clock " << kClocks[static_cast<int>(step.clock)] << " "
        << step.amount << " limits " << step.limits << " costs " << step.cost[0] << " " << step.cost[1] << " "
        << step.cost[2] << " lease " << step.lease << " queue_for " << step.queue_for << " session "
        << step.session << " back " << step.back << " variant " << step.variant
        << (step.together ? " together" : "") << (step.by_group ? " by-group" : "")
        << (step.dry ? " dry" : "") << (step.partial ? " partial" : "") << (step.force ? " force" : "")
        << (step.named_holder ? " holder" : "") << "\n";
  }
  return out.str();
}

const char* NameOf(Kind kind) {
  constexpr const char* kNames[PermitStep::kKinds] = {"acquire", "named", "repeat", "ask again", "call",
                                                      "list",    "reset", "report", "adjust",    "undo",
                                                      "change",  "stale", "look"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace penstock::fixtures
