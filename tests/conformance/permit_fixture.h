// What the tests of permits share.
#pragma once

#include "harness.h"

namespace penstock::conformance {

inline constexpr Micros kLease = Seconds(30);

class PermitsTest : public ConformanceTest {
 protected:
  void SetUp() override {
    if (!engine_->engine().CanHoldPermits()) {
      GTEST_SKIP() << "the engine " << engine_->engine().name() << " does not hold permits yet";
    }
  }

  core::PermitAsk NewAsk(Micros queue_for = {}) {
    ++drawn_;
    return {.id = {drawn_, ~drawn_}, .queue_for = queue_for};
  }
  // A request under a new id.
  Request Permit(const core::Limit& limit, int64_t weight = 1, Micros queue_for = {},
                 std::string_view key = "k") {
    Request request;
    request.asks = {{&limit, key, weight}};
    request.permit = NewAsk(queue_for);
    return request;
  }
  Answer Acquire(const core::Limit& limit, int64_t weight = 1, Micros queue_for = {},
                 std::string_view key = "k") {
    return client_.Ask(Permit(limit, weight, queue_for, key));
  }
  int64_t InUse(const core::Limit& limit) { return client_.Holders(limit).in_use; }
  int64_t Waiting(const core::Limit& limit) { return client_.Holders(limit).waiting; }

 private:
  uint64_t drawn_ = 0;
};

}  // namespace penstock::conformance
