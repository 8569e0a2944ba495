#include "engine/redis/checkup/scratch_client.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

namespace penstock::checkup {

ScratchClient::ScratchClient(engine::Engine& engine, const Clock& clock, core::Limit limit)
    : thread_(clock), limit_(std::move(limit)) {
  thread_.Run([&] {
    session_ = engine.OpenLoop({thread_.loop(), thread_.loop(), &thread_.dialer()});
    session_->BindAdHoc(limit_);
  });
}

ScratchClient::~ScratchClient() {
  thread_.Run([this] {
    session_->Close();
    session_.reset();
  });
}

bool ScratchClient::WaitUntilReady(const std::string& key, std::string& why) {
  constexpr Micros kPatience = Seconds(5);
  Plan look;
  look.key = key;
  look.cost = 0;
  const SteadyTime end = thread_.clock().Steady() + kPatience;
  for (;;) {
    const Tally tally = Do(look);
    if (tally.decided() > 0) return true;
    why = ToString(tally.reason);
    if (thread_.clock().Steady() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::future<Tally> ScratchClient::Begin(const Plan& plan) {
  std::future<Tally> future;
  thread_.Run([&] {
    plan_ = plan;
    tally_ = {};
    promise_ = {};
    future = promise_.get_future();
    asked_ = 0;
    began_ = last_decided_at_ = thread_.clock().Steady();
    Ask();
  });
  return future;
}

void ScratchClient::Ask() {
  batch_.Clear();
  const size_t count = std::min<uint64_t>({plan_.together, kMaxTogether, plan_.times - asked_});
  for (size_t i = 0; i < count; ++i) {
    std::string key = plan_.key;
    if (plan_.keys > 1) key += std::to_string((asked_ + i) % plan_.keys);
    const std::array<std::string_view, 1> parts = {key};
    engine::Group& group = batch_.AddGroup();
    group.mode = plan_.mode;
    group.domain = limit_.domain;
    batch_.AddOperation(limit_, parts).cost = plan_.cost;
  }
  asked_ += count;
  in_flight_ = count;
  asked_at_ = thread_.clock().Steady();
  session_->Decide(batch_, asked_at_ + plan_.timeout, *this);
}

void ScratchClient::Decided(engine::Batch& batch, engine::Group& group) noexcept {
  Count(group);
  if (group.result.state == engine::GroupState::kDecided) {
    tally_.reset_after = batch.operations(group).front().verdict.reset_after;
  }
  // Not from in here: the batch is the engine's until it returns.
  if (--in_flight_ == 0) thread_.loop().Post([this] { Next(); });
}

void ScratchClient::Count(const engine::Group& group) {
  tally_.last_decided = group.result.state == engine::GroupState::kDecided;
  if (group.result.state == engine::GroupState::kUnavailable) {
    ++tally_.unavailable;
    tally_.reason = group.result.reason;
    return;
  }
  const SteadyTime now = thread_.clock().Steady();
  tally_.decided_us.push_back((now - asked_at_).count);
  tally_.longest_gap = std::max(tally_.longest_gap, now - last_decided_at_);
  last_decided_at_ = now;
  const Outcome outcome =
      tally_.last_decided ? core::GroupOutcome(batch_.operations(group)) : Outcome::kNever;
  (outcome == Outcome::kAllowed  ? tally_.admitted
   : outcome == Outcome::kDenied ? tally_.denied
                                 : tally_.other)++;
}

void ScratchClient::Next() {
  const bool stop = plan_.stop != nullptr && plan_.stop->load(std::memory_order_acquire);
  const SteadyTime now = thread_.clock().Steady();
  if (asked_ >= plan_.times || stop || now - began_ > plan_.most) return Finish();
  if (plan_.pause.count == 0) return Ask();
  thread_.loop().Schedule(now + plan_.pause, [this] { Ask(); });
}

void ScratchClient::Finish() {
  tally_.longest_gap = std::max(tally_.longest_gap, thread_.clock().Steady() - last_decided_at_);
  promise_.set_value(std::move(tally_));
}

}  // namespace penstock::checkup
