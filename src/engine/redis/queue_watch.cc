#include "engine/redis/queue_watch.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace penstock::engine::redis {
namespace {

constexpr size_t kDigits = 32;  // of an id

bool ParseHalf(std::string_view digits, uint64_t& half) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), half, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

QueueWatch::QueueWatch(const QueueWatchParts& parts)
    : parts_(parts),
      self_(std::make_shared<QueueWatch*>(this)),
      alarm_(parts.timer, [this] { LookAround(); }) {}

void QueueWatch::Stop() {
  *self_ = nullptr;
  alarm_.Cancel();
  listening_.reset();
  waiting_.clear();
  buckets_.clear();
}

void QueueWatch::Waits(const Hash128& id, const Hash128& bucket) {
  if (*self_ == nullptr) return;
  const SteadyTime now = parts_.clock.Steady();
  const auto found = waiting_.find(id);
  if (found != waiting_.end() && found->second.bucket == bucket) {
    found->second.asked = now;
    return;
  }
  Left(id);
  waiting_[id] = {bucket, now};
  Bucket& there = buckets_[bucket];
  if (there.waiting++ == 0) {
    there.due = now + kLook;
    there.seen = now;
    alarm_.SetBy(there.due);
  }
  if (listening_ == nullptr) {
    listening_ = parts_.hints.Listen(HintKind::kPermits, parts_.executor,
                                     [this](std::string_view what) { Heard(what); });
  }
}

void QueueWatch::OneLessIn(const Hash128& bucket) {
  const auto there = buckets_.find(bucket);
  if (--there->second.waiting == 0) buckets_.erase(there);
}

void QueueWatch::Left(const Hash128& id) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  OneLessIn(found->second.bucket);
  waiting_.erase(found);
}

void QueueWatch::Leave(const Hash128& id, const Hash128& bucket) {
  Left(id);
  auto* const call = new PermitCall{.verb = PermitVerb::kLeave, .permit = {.id = id, .size = 1}};
  call->permit.places[0].bucket = bucket;
  parts_.caller.Call({call, 1}, parts_.clock.Steady() + kTimeout, unheard_);
}

void QueueWatch::Wake(const Hash128& id) {
  if (waker_ != nullptr && waiting_.contains(id)) waker_->Woken(id);
}

// Places may be gone: whoever had one asks for himself.
void QueueWatch::WakeAll(const Hash128& bucket) {
  std::vector<Hash128> ids;
  for (const auto& [id, place] : waiting_) {
    if (place.bucket == bucket) ids.push_back(id);
  }
  for (const Hash128& id : ids) Wake(id);
}

void QueueWatch::Heard(std::string_view what) {
  if (what.empty()) {  // some may have been missed
    for (auto& [bucket, there] : buckets_) there.due = {};
    if (!buckets_.empty()) alarm_.SetBy({});
    return;
  }
  std::vector<Hash128> ids;
  for (; what.size() >= kDigits; what.remove_prefix(std::min(what.size(), kDigits + 1))) {
    Hash128 id;
    if (ParseHalf(what.substr(0, kDigits / 2), id.high) &&
        ParseHalf(what.substr(kDigits / 2, kDigits / 2), id.low)) {
      ids.push_back(id);
    }
  }
  for (const Hash128& id : ids) Wake(id);
}

void QueueWatch::LookAround() {
  const SteadyTime now = parts_.clock.Steady();
  std::erase_if(waiting_, [&](const auto& entry) {
    if (now - entry.second.asked < kForgotten) return false;
    OneLessIn(entry.second.bucket);
    return true;
  });
  if (waiting_.empty()) listening_.reset();
  for (auto& [bucket, there] : buckets_) {
    if (there.looking) continue;  // its due is set then
    if (there.due > now) {
      alarm_.SetBy(there.due);
      continue;
    }
    there.looking = true;
    parts_.caller.Look(bucket, now + kTimeout,
                       [self = self_, name = bucket](std::span<const Hash128> turns, Micros nearest) {
                         if (*self != nullptr) (*self)->Looked(name, turns, nearest);
                       });
  }
}

void QueueWatch::Looked(const Hash128& bucket, std::span<const Hash128> turns, Micros nearest) {
  const auto there = buckets_.find(bucket);
  bool unseen = false;
  if (there != buckets_.end()) {
    there->second.looking = false;
    const Micros pause = nearest.count <= 0 ? kLook : std::clamp(nearest, kSoon, kLook);
    const SteadyTime now = parts_.clock.Steady();
    there->second.due = now + pause;
    if (nearest.count > 0) unseen = now - std::exchange(there->second.seen, now) > kUnseen;
    alarm_.SetBy(there->second.due);
  }
  if (nearest.count < 0 || unseen) return WakeAll(bucket);
  for (const Hash128& turn : turns) {
    const auto found = waiting_.find(turn);
    if (found == waiting_.end() || !(found->second.bucket == bucket)) {
      Leave(turn, bucket);  // nobody asks for it here any more
    } else {
      Wake(turn);
    }
  }
}

}  // namespace penstock::engine::redis
