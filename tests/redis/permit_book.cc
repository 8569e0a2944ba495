#include "redis/permit_book.h"

#include <algorithm>
#include <utility>

namespace penstock::fixtures {
namespace {

class Overlap {
 public:
  void Add(int64_t from, int64_t to, int64_t weight) {
    if (from >= to) return;
    steps_.emplace_back(from, weight);
    steps_.emplace_back(to, -weight);
  }
  // Who ends at an instant holds at it no more.
  int64_t Most() {
    std::sort(steps_.begin(), steps_.end());
    int64_t held = 0;
    int64_t most = 0;
    for (const auto& [at, change] : steps_) most = std::max(most, held += change);
    return most;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> steps_;
};

std::string Both(const Stay& a, const Stay& b, const char* what) {
  return std::string(what) + ": fences " + std::to_string(a.fence) + " and " + std::to_string(b.fence);
}

// A later grant has the greater fence, by the engine's clock and by what the holders saw.
std::string WrongFences(std::vector<Stay>& stays) {
  std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) { return a.fence < b.fence; });
  SteadyTime last_asked{INT64_MIN};
  for (size_t i = 0; i < stays.size(); ++i) {
    const Stay& stay = stays[i];
    if (i > 0 && stay.fence == stays[i - 1].fence) return Both(stays[i - 1], stay, "twice the same");
    if (i > 0 && stay.granted < stays[i - 1].granted)
      return Both(stays[i - 1], stay, "against the engine's clock");
    if (stay.begins < last_asked)
      return Both(stays[i - 1], stay, "greater than that of one who asked after it");
    last_asked = std::max(last_asked, stay.asked);
  }
  return {};
}

}  // namespace

Verdicts Judge(std::vector<Stay> stays) {
  Verdicts out;
  Overlap engine;
  Overlap holders;
  for (const Stay& stay : stays) {
    engine.Add(stay.granted.us, stay.expires.us, stay.weight);
    holders.Add(stay.begins.us, stay.ends.us, stay.weight);
  }
  out.most_by_engine = engine.Most();
  out.most_by_holders = holders.Most();
  out.wrong_fences = WrongFences(stays);
  return out;
}

}  // namespace penstock::fixtures
