#include "engine/redis/permit_caller.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/random.h"
#include "engine/redis/count.h"
#include "engine/redis/keys.h"
#include "engine/redis/packed_limit.h"
#include "resp/writer.h"

namespace penstock::engine::redis {
namespace {

constexpr char kLookVerb = 3;  // beside those of PermitVerb

// What a call's places are put together from.
PermitCall NothingYet(PermitVerb verb) {
  PermitCall told;
  told.fate = DoneFate(verb);
  told.expires_in = {std::numeric_limits<int64_t>::max()};
  return told;
}

}  // namespace

// One script call on its way.
class PermitCaller::ScriptRun final : public Exchange {
 public:
  ScriptRun(PermitCaller& owner, std::span<const Item> run) : items(run.begin(), run.end()), owner_(owner) {
    std::vector<std::string> keys;
    deadline = SteadyTime{std::numeric_limits<int64_t>::max()};
    for (const Item& item : items) {
      const PermitCall& call = *item.request->call;
      const PermitPlace& held = call.permit.places[item.place];
      deadline = std::min(deadline, item.request->deadline);
      std::string key;
      AppendPermitKey(key, owner.parts_.prefix, held.bucket);
      const auto known = std::find(keys.begin(), keys.end(), key);
      Append(calls_, static_cast<uint16_t>(known - keys.begin() + 1));
      if (known == keys.end()) keys.push_back(std::move(key));
      const bool looks = item.request->looked != nullptr;
      calls_ += looks ? kLookVerb : static_cast<char>(call.verb);
      AppendHash(calls_, call.permit.id);
      Append(calls_, call.permit.weight);
      if (looks || call.verb == PermitVerb::kLeave) {
        Append(calls_, owner.session_);
      } else {
        AppendDouble(calls_, held.fence);
      }
      AppendDouble(calls_, call.lease.count);
    }
    std::vector<std::string_view> words = {"EVALSHA", owner.parts_.script.sha1};
    const std::string count = std::to_string(keys.size());
    words.emplace_back(count);
    words.insert(words.end(), keys.begin(), keys.end());
    std::string not_after;
    AppendDouble(not_after, core::kMaxExact);
    words.emplace_back(not_after);
    words.emplace_back("");
    words.emplace_back(calls_);
    resp::AppendCommand(command_, words);
    // Behind it stand the empty word ("$0", CR LF twice), the size of the calls and they themselves.
    not_after_at_ = command_.size() - calls_.size() - 2 - (std::to_string(calls_.size()).size() + 3) - 6 - 2 -
                    not_after.size();
  }

  void Prepare(const ClockOffset& clock) noexcept override {
    if (clock.known()) PutDouble(&command_[not_after_at_], clock.Latest(deadline).us);
  }
  std::string_view command() const noexcept override { return command_; }
  const Script* script() const noexcept override { return &owner_.parts_.script; }
  bool Divide() noexcept override {
    if (items.size() < 2) return false;
    for (Item item : items) {
      item.redirects = redirects;
      owner_.queue_.push_back(item);
    }
    owner_.flush_.Post();
    delete this;
    return true;
  }
  void Expired() noexcept override {
    expired_ = true;
    for (const Item& item : items) owner_.Refuse(item, Reason::kTimeout);
  }
  void Done(const Reply& reply) noexcept override {
    const std::unique_ptr<ScriptRun> self(this);
    if (!expired_) owner_.Read(*this, reply);
  }

  std::vector<Item> items;

 private:
  PermitCaller& owner_;
  std::string calls_;
  std::string command_;
  size_t not_after_at_ = 0;
  bool expired_ = false;
};

PermitCaller::PermitCaller(const PermitCallerParts& parts)
    : parts_(parts), session_(RandomSeed()), flush_(parts.executor, [this] { Flush(); }) {}

PermitCaller::~PermitCaller() { Stop(); }

void PermitCaller::Stop() {
  topology_ = nullptr;
  for (const Item& item : std::exchange(queue_, {})) Refuse(item, Reason::kShuttingDown);
}

void PermitCaller::Call(std::span<PermitCall> calls, SteadyTime deadline, PermitSink& sink) noexcept {
  for (PermitCall& call : calls) {
    const bool refused = topology_ == nullptr || queue_.size() >= kMaxQueued;
    if (call.permit.size == 0 || refused) {
      call.fate = refused ? core::PermitFate::kUnavailable : core::PermitFate::kUnknown;
      call.reason = !refused               ? Reason::kNone
                    : topology_ == nullptr ? Reason::kShuttingDown
                                           : Reason::kOverload;
      sink.Called(call);
      continue;
    }
    Request* const request = std::make_unique<Request>(Request{.call = &call,
                                                               .sink = &sink,
                                                               .deadline = deadline,
                                                               .open = call.permit.size,
                                                               .told = NothingYet(call.verb),
                                                               .looked = {},
                                                               .own = {}})
                                 .release();
    for (uint8_t place = 0; place < call.permit.size; ++place)
      queue_.push_back({.request = request, .place = place});
  }
  if (!queue_.empty()) flush_.Post();
}

void PermitCaller::Look(const Hash128& bucket, SteadyTime deadline, Looked looked) {
  if (topology_ == nullptr) return;
  auto* const request = new Request{.deadline = deadline,
                                    .open = 1,
                                    .told = NothingYet(PermitVerb::kRelease),
                                    .looked = std::move(looked),
                                    .own = {}};
  request->own.permit.size = 1;
  request->own.permit.places[0].bucket = bucket;
  request->call = &request->own;
  queue_.push_back({.request = request});
  flush_.Post();
}

int32_t PermitCaller::SlotOf(const Item& item) {
  return SlotOfPermits(item.request->call->permit.places[item.place].bucket);
}

void PermitCaller::Flush() {
  if (topology_ == nullptr) return;
  std::vector<Item> items = std::exchange(queue_, {});
  const bool slots = topology_->has_slots();
  if (slots) {
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return SlotOf(a) < SlotOf(b); });
  }
  const SteadyTime now = parts_.clock.Steady();
  const auto in_time = std::stable_partition(
      items.begin(), items.end(), [now](const Item& item) { return item.request->deadline > now; });
  for (auto late = in_time; late != items.end(); ++late) Refuse(*late, Reason::kTimeout);
  items.erase(in_time, items.end());
  for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    const int32_t slot = slots ? SlotOf(items[begin]) : Exchange::kNoSlot;
    end = begin + 1;
    while (end < items.size() && end - begin < kMaxCalls && items[begin].redirects == 0 &&
           items[end].redirects == 0 && (!slots || SlotOf(items[end]) == slot)) {
      ++end;
    }
    Send(std::span(items).subspan(begin, end - begin), slot);
  }
}

void PermitCaller::Send(std::span<const Item> items, int32_t slot) {
  ServerLink* const link = topology_ == nullptr ? nullptr : topology_->LinkFor(slot);
  Reason refused = topology_ == nullptr ? Reason::kShuttingDown : Reason::kEngineDown;
  if (link != nullptr) {
    auto run = std::make_unique<ScriptRun>(*this, items);
    run->slot = slot;
    run->redirects = items[0].redirects;
    Count(parts_.counters.calls);
    refused = link->Send(*run);
    if (refused == Reason::kNone) return static_cast<void>(run.release());  // the link's, until Done
  }
  for (const Item& item : items) Refuse(item, refused);
}

void PermitCaller::Refuse(const Item& item, Reason reason) {
  Answer(item, core::PermitFate::kUnavailable, {}, reason);
}

void PermitCaller::Answer(const Item& item, core::PermitFate fate, Micros expires_in, Reason reason) {
  Request& request = *item.request;
  PermitCall& told = request.told;
  told.fate = core::Together(told.fate, fate);
  told.expires_in = std::min(told.expires_in, expires_in);
  if (reason != Reason::kNone) told.reason = reason;
  if (--request.open > 0) return;
  const std::unique_ptr<Request> done(&request);
  if (request.looked) return request.looked({}, {told.fate == core::PermitFate::kUnknown ? -1 : 0});
  PermitCall& call = *request.call;
  call.fate = told.fate;
  call.reason = told.reason;
  call.expires_in = told.fate == core::PermitFate::kRenewed ? told.expires_in : Micros{};
  request.sink->Called(call);
}

bool PermitCaller::ReadLook(const Item& item, std::string_view& answers) {
  constexpr size_t kTurn = sizeof(Hash128);
  Request& request = *item.request;
  if (!request.looked || answers.size() <= sizeof(double)) return false;
  const Micros nearest{GetDouble(answers.data())};
  const auto count = static_cast<unsigned char>(answers[sizeof(double)]);
  answers.remove_prefix(sizeof(double) + 1);
  if (answers.size() < count * kTurn) return false;
  std::vector<Hash128> turns(count);
  for (Hash128& turn : turns) {
    turn = TakeHash(answers.data());
    answers.remove_prefix(kTurn);
  }
  const std::unique_ptr<Request> done(&request);
  request.looked(turns, nearest);
  return true;
}

void PermitCaller::Read(ScriptRun& run, const Reply& reply) {
  std::string_view bytes;
  if (reply.fate == Fate::kReplied && !reply.nodes.empty() && reply.nodes[0].type == resp::ReplyType::kBulk) {
    bytes = reply.nodes[0].text;
  }
  const Reason failed = reply.fate == Fate::kReplied ? Reason::kEngineDown : reply.reason;
  if (bytes.size() >= sizeof(double)) {
    reply.link->clock().Note({GetDouble(bytes.data())}, reply.received);
    bytes.remove_prefix(sizeof(double));
  } else {
    bytes = {};
  }
  const std::string copy(bytes);  // who hears of one may end the buffer
  std::string_view answers = copy;
  for (const Item& item : run.items) {
    const char letter = answers.empty() ? '\0' : answers[0];
    answers.remove_prefix(std::min<size_t>(answers.size(), 1));
    switch (letter) {
      case 'h':
        if (ReadLook(item, answers)) continue;
        break;
      case 'r':
        Answer(item, core::PermitFate::kReleased, {}, Reason::kNone);
        continue;
      case 'e':
        Answer(item, core::PermitFate::kExpired, {}, Reason::kNone);
        continue;
      case 'u':
        Answer(item, core::PermitFate::kUnknown, {}, Reason::kNone);
        continue;
      case 'n':
        if (answers.size() >= sizeof(double)) {
          const Micros left{GetDouble(answers.data())};
          answers.remove_prefix(sizeof(double));
          Answer(item, core::PermitFate::kRenewed, left, Reason::kNone);
          continue;
        }
        break;
      case 'L':
        Refuse(item, Reason::kTimeout);
        continue;
      case 'F':
        Count(parts_.counters.full);
        Refuse(item, Reason::kFull);
        continue;
      case 'X':
        Count(parts_.counters.foreign);
        break;
      case 'N':
        Count(parts_.counters.newer);
        break;
      case '\0':
        break;
      default:
        Count(parts_.counters.broken);
        answers = {};
        break;
    }
    Refuse(item, failed == Reason::kNone ? Reason::kEngineDown : failed);
  }
  if (answers.size() == sizeof(double)) {
    Count(parts_.counters.reclaimed, static_cast<uint64_t>(GetDouble(answers.data())));
  }
}

}  // namespace penstock::engine::redis
