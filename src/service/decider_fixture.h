// The decider on an engine that answers inline or later, as the test says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "service/decider_impl.h"
#include "service/fake_engine.h"
#include "service/test_support.h"

namespace penstock::service {

class DeciderTest : public testing::Test {
 protected:
  void Publish(std::vector<policy::LimitDefinition> limits) {
    Result<void> published;
    store_.Publish(MakePolicy(std::move(limits)), session_,
                   [&published](Result<void> done) { published = done; });
    ASSERT_TRUE(published.has_value());
  }
  DeciderImpl& decider() {
    if (decider_ == nullptr) {
      decider_ = std::make_unique<DeciderImpl>(engine_, session_, executor_, clock_, store_,
                                               metrics_.AddLoop(), options_);
    }
    executor_.RunAll();
    return *decider_;
  }
  static Request Ask(std::span<const Attribute> attributes, int64_t cost = 1) {
    Request request;
    request.domain = "api";
    request.attributes = attributes;
    request.options.cost = cost;
    return request;
  }
  void Submit(const Request& request) { decider().Submit(request, answers_, next_token_++); }
  // Asks and gives the answer's token.
  uint64_t Check(const Request& request) {
    Submit(request);
    decider().Flush();
    return next_token_ - 1;
  }
  LimitCounts Counts(std::string_view name) {
    LimitCounts counts;
    metrics_.ForEachLimit([&](std::string_view, std::string_view limit, const LimitCounts& of_limit) {
      if (limit == name) counts = of_limit;
    });
    return counts;
  }

  FakeEngine engine_;
  FakeSession session_;
  FakeExecutor executor_;
  ManualClock clock_{EngineTime{5'000'000}};
  Metrics metrics_;
  PolicyStore store_{metrics_};
  DeciderOptions options_;
  Answers answers_;
  uint64_t next_token_ = 1;
  std::unique_ptr<DeciderImpl> decider_;
};

// Whom no answer about a permit interests.
class Silent final : public PermitReceiver {
 public:
  void PermitAnswered(uint64_t, const PermitAnswer&) noexcept override {}
};

inline const std::vector<Attribute> kUser42 = {{"user", "42"}};

}  // namespace penstock::service
