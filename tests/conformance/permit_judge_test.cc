// Random requests for permits, with releases, renewals and crashes, judged step by
// step by the smallest engine there is (core/testing/permit_book.h).
#include <vector>

#include "base/random.h"
#include "core/group.h"
#include "core/permits.h"
#include "core/testing/permit_book.h"
#include "permit_fixture.h"

namespace penstock::conformance {
namespace {

class PermitJudge : public PermitsTest {
 protected:
  static constexpr int64_t kPermits = 6;
  struct Own {
    core::PermitAsk ask;
    int64_t weight = 1;
    engine::PermitId permit;  // as granted or waiting; size 0: neither yet
  };

  // Both decide; what they say must be the same.
  void Decide(Own& own) {
    core::Operation judged;
    judged.limit = limit_.get();
    judged.cost = own.weight;
    judged.bucket = book_.View(limit_->params, own.ask.id, engine_->now());
    ASSERT_EQ(core::DecideGroup({&judged, 1}, {.permit = &own.ask}, engine_->now()),
              core::GroupStatus::kDecided);
    book_.Apply(judged.edit, judged.charge, own.ask);
    Request request;
    request.asks = {{limit_.get(), "k", own.weight}};
    request.permit = own.ask;
    const Answer answer = client_.Ask(request);
    const core::Verdict& verdict = answer[0];
    ASSERT_EQ(verdict.outcome, judged.verdict.outcome);
    ASSERT_EQ(verdict.queued, judged.verdict.queued);
    ASSERT_EQ(verdict.remaining, judged.verdict.remaining);
    ASSERT_EQ(verdict.retry_after, judged.verdict.retry_after);
    ASSERT_EQ(verdict.reset_after, judged.verdict.reset_after);
    ASSERT_EQ(verdict.taken, judged.verdict.taken);
    ASSERT_EQ(answer.parts[0].charge.cost, judged.charge.cost);
    ASSERT_EQ(answer.parts[0].charge.window, judged.charge.window) << "the fence";
    ASSERT_EQ(answer.parts[0].charge.debt_before, judged.charge.debt_before) << "the expiry";
    if (answer.permit.size > 0) own.permit = answer.permit;
    if (answer.waiting.size > 0) own.permit = answer.waiting;
  }

  void CompareHolders() {
    book_.View(limit_->params, {}, engine_->now());
    const engine::HolderList list = client_.Holders(*limit_);
    ASSERT_EQ(list.in_use, book_.in_use(engine_->now()));
    ASSERT_EQ(list.waiting, static_cast<int64_t>(book_.waiters().size()));
    size_t i = 0;
    for (const core::Holder& holder : book_.holders()) {
      if (holder.expires_at <= engine_->now()) continue;
      ASSERT_LT(i, list.entries.size());
      ASSERT_EQ(list.entries[i].expires_in, holder.expires_at - engine_->now());
      ++i;
    }
    ASSERT_EQ(i, list.entries.size());
  }

  std::unique_ptr<core::Limit> limit_;
  core::testing::PermitBook book_;
};
INSTANTIATE_TEST_SUITE_P(Engines, PermitJudge, testing::ValuesIn(EngineFactories()), EngineName);

TEST_P(PermitJudge, RandomTrafficIsDecidedAsTheBookSays) {
  const bool inline_engine = engine_->engine().name() == "memory";
  const int steps = inline_engine ? 30'000 : 1'500;
  Random random(Seed());
  limit_ = Registered("n", Semaphore(kPermits, kLease));
  std::vector<Own> owners;
  for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    Advance({random.Below(3) == 0 ? random.Between(0, 20'000'000) : random.Between(0, 300'000)});
    if (owners.empty() || random.Below(3) == 0) {
      Own own;
      own.ask = NewAsk(random.Below(2) == 0 ? Micros{} : Millis(random.Between(1, 20'000)));
      if (random.Below(3) == 0) own.ask.lease = Millis(random.Between(1, 40'000));
      own.weight = random.Below(8) == 0 ? random.Between(0, kPermits + 1) : random.Between(1, 3);
      Decide(own);
      owners.push_back(own);
      if (owners.size() > 40) owners.erase(owners.begin());
      continue;
    }
    Own& own = owners[random.Below(owners.size())];
    const bool holds = own.permit.size > 0 && own.permit.places[0].fence > 0;
    book_.View(limit_->params, own.ask.id, engine_->now());
    if (!holds) {
      if (own.permit.size == 0 || random.Below(3) > 0) {
        Decide(own);
      } else {
        const core::BucketView view = book_.View(limit_->params, own.ask.id, engine_->now());
        core::BucketEdit leave;
        leave.write = true;
        leave.state = view.state;
        leave.permit = core::PermitChange::kLeave;
        book_.Apply(leave, {}, own.ask);
        ASSERT_EQ(client_.Leave(own.permit),
                  view.waits ? core::PermitFate::kReleased : core::PermitFate::kUnknown);
      }
    } else if (random.Below(2) == 0) {
      ASSERT_EQ(client_.Release(own.permit), book_.Release(own.ask.id, engine_->now()));
    } else {
      const Micros lease = core::LeaseUnder(kLease, Millis(random.Between(0, 40'000)));
      ASSERT_EQ(client_.Renew(own.permit, lease), book_.Renew(own.ask.id, lease, engine_->now()));
    }
    if (step % 16 == 0) CompareHolders();
  }
}

}  // namespace
}  // namespace penstock::conformance
