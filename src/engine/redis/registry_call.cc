#include "engine/redis/registry_call.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "engine/redis/reply_table.h"
#include "engine/redis/slots.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

constexpr size_t kDigits = 16;  // of an instant in microseconds: below 2^53
constexpr int64_t kLatest = (int64_t{1} << 53) - 1;

std::string Digits(int64_t instant) {
  std::array<char, kDigits + 1> out;
  std::snprintf(out.data(), out.size(), "%016lld", static_cast<long long>(instant));
  return {out.data(), kDigits};
}

}  // namespace

RedisRegistry::Call::Call(RedisRegistry& owner, std::vector<std::string> arguments, Answer answer)
    : owner_(&owner), answer_(std::move(answer)) {
  const std::string never = Digits(kLatest);
  std::vector<std::string_view> all = {"EVALSHA",         owner.parts_.script.sha1, "2",
                                       owner.limits_key_, owner.versions_key_,      never};
  all.insert(all.end(), arguments.begin(), arguments.end());
  resp::AppendCommand(command_, all);
  not_after_ = command_.find("\r\n" + never + "\r\n") + 2;
  slot = SlotOf(owner.limits_key_);
  deadline = owner.parts_.clock.Steady() + kPatience;
}

RedisRegistry::Call::~Call() = default;

void RedisRegistry::Call::Start() { Send(); }

void RedisRegistry::Call::Prepare(const ClockOffset& clock) noexcept {
  if (!clock.known()) return;
  const int64_t latest = std::clamp<int64_t>(clock.Latest(deadline).us, 0, kLatest);
  std::memcpy(&command_[not_after_], Digits(latest).data(), kDigits);
}

void RedisRegistry::Call::Send() {
  retry_ = 0;
  Topology& topology = owner_->parts_.topology;
  ServerLink* const link = topology.LinkFor(slot);
  if (link != nullptr) {
    sent_ = true;
    if (link->Send(*this) == Reason::kNone) return;  // this may be gone
    sent_ = false;
  }
  const SteadyTime now = owner_->parts_.clock.Steady();
  if (now + kRetry >= deadline) {
    const std::string_view trouble = link != nullptr ? link->last_error() : topology.trouble();
    return Fail(trouble.empty() ? "the engine does not answer" : trouble);
  }
  retry_ = owner_->parts_.timer.Schedule(now + kRetry, [this] { Send(); });
}

void RedisRegistry::Call::Expired() noexcept {
  if (!finished_) Fail("the engine did not answer in time");
}

void RedisRegistry::Call::Done(const Reply& reply) noexcept {
  sent_ = false;
  if (owner_ == nullptr) {
    delete this;
    return;
  }
  if (finished_) return owner_->Forget(*this);
  if (reply.fate != Fate::kReplied) {
    if (reply.fate == Fate::kNotRun && owner_->parts_.clock.Steady() + kRetry < deadline) {
      const SteadyTime again = owner_->parts_.clock.Steady() + kRetry;
      retry_ = owner_->parts_.timer.Schedule(again, [this] { Send(); });
      return;
    }
    return Fail(reply.fate == Fate::kNotRun ? "the engine cannot be asked" : "the engine's answer was lost");
  }
  const resp::ReplyNode& root = reply.nodes.front();
  if (root.type == resp::ReplyType::kError) return Fail(Explain(root.text));
  if (root.type != resp::ReplyType::kArray || root.children == 0)
    return Fail("the registry's answer is no list");
  Parts parts;
  for (const resp::ReplyNode& node : reply.nodes.subspan(1)) parts.push_back(node.text);
  if (parts[0] == "late") return Fail("the engine did not answer in time");
  Finish(parts);
}

void RedisRegistry::Call::Fail(std::string_view why) {
  Finish(penstock::Fail(ErrorKind::kUnavailable, "the registry of limits: " + std::string(why)));
}

void RedisRegistry::Call::Finish(const Result<Parts>& parts) {
  finished_ = true;
  const Answer answer = std::move(answer_);
  RedisRegistry& owner = *owner_;
  const bool with_link = sent_;
  answer(parts);
  if (!with_link) owner.Forget(*this);
}

bool RedisRegistry::Call::Silence() {
  if (retry_ != 0) owner_->parts_.timer.Cancel(retry_);
  retry_ = 0;
  answer_ = nullptr;
  finished_ = true;
  return sent_;
}

}  // namespace penstock::engine::redis
