// The judge: what Penstock promises, written down a second time as plainly as possible and with integers that cannot
// overflow, sharing no code with the rules it judges. Slow on purpose. Tests compare every field of every answer with
// it: the unit tests of core, the conformance suites of the engines, and the replays of real traffic.
//
//   Model model({.kind = ModelKind::kTokenBucket, .count = 30, .period_us = 60'000'000, .burst = 10});
//   ModelVerdict verdict = model.Decide(now_us, 1);
//
// One Model is one bucket: a test that needs one bucket a key keeps a map of them. It checks its own answers against
// the definition (refused just before the stated instant, admitted at it) and aborts where they disagree.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock::core::testing {

enum class ModelKind : uint8_t {
  kTokenBucket,
  kFixedEpoch,
  kFixedFirstRequest,
  kFixedCalendar,
  kSlidingWindow,
  kSlidingLog,
  kZero,
  kUnlimited,
};

struct ModelSpec {
  ModelKind kind = ModelKind::kTokenBucket;
  int64_t count = 0;             // `count` per `period_us`
  int64_t period_us = 0;         // kFixedCalendar: not used
  int64_t burst = 0;             // kTokenBucket; 0 = count
  std::vector<int64_t> edges{};  // kFixedCalendar: the starts of all windows, ascending
};

struct ModelOptions {
  int64_t max_wait_us = 0;
  bool force = false;
  bool partial = false;
  bool dry = false;  // judged, and nobody is charged
};

enum class ModelOutcome : uint8_t { kAllowed, kDenied, kNever };

struct ModelVerdict {
  ModelOutcome outcome = ModelOutcome::kAllowed;
  int64_t limit = 0;      // -1 = unlimited
  int64_t remaining = 0;  // -1 = unlimited
  int64_t taken = 0;
  int64_t retry_after_us = 0;
  int64_t reset_after_us = 0;
  int64_t wait_us = 0;
  bool saturated = false;

  friend bool operator==(const ModelVerdict&, const ModelVerdict&) = default;
};

// What was charged, for Adjust. `whole` and `rest` are a token bucket's debt before it: whole tokens, and the begun
// one in parts of a period.
struct ModelCharge {
  int64_t at_us = 0;
  int64_t window_us = 0;
  int64_t whole = 0;
  int64_t rest = 0;
  int64_t cost = 0;
  int64_t version = 0;
};

class ModelBucket;

class Model {
 public:
  explicit Model(ModelSpec spec);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // A request under this limit alone.
  ModelVerdict Decide(int64_t now_us, int64_t cost, const ModelOptions& options = {});

  // New parameters of the same kind, as a policy's next version: the next decision converts, even one that refuses.
  void Change(ModelSpec spec);
  // The same by the caller of an ad hoc limit: the next charge converts, and a refusal leaves no trace.
  void ChangeAdHoc(ModelSpec spec);

  // The charge of the last decision (cost 0: none was made), and a settle or undo of it. Not while ad hoc parameters
  // are changed and not yet charged under.
  const ModelCharge& charge() const;
  ModelVerdict Adjust(const ModelCharge& charge, int64_t delta, int64_t now_us);

  // Where a cost of nothing is remembered, to be settled to more later: the window that is charged now.
  ModelCharge Place(int64_t now_us) const;

  const ModelSpec& spec() const;
  // The bucket was charged or converted at some time, and the version it then had: that of this many changes.
  bool written() const;
  int64_t bucket_version() const;

 private:
  struct State;
  friend std::vector<ModelVerdict> DecideTogether(std::span<const struct ModelRequest>, const ModelOptions&,
                                                  int64_t);
  std::unique_ptr<State> state_;
};

struct ModelRequest {
  Model* model = nullptr;
  int64_t cost = 1;
  int unit = 0;
  bool shadow = false;
};

// One request under several limits: all or nothing. Verdicts in the order of the requests.
std::vector<ModelVerdict> DecideTogether(std::span<const ModelRequest> requests, const ModelOptions& options,
                                         int64_t now_us);

}  // namespace penstock::core::testing
