#include "engine/memory/holder_record.h"

#include <algorithm>
#include <boost/intrusive/set.hpp>
#include <iterator>
#include <new>
#include <string>

#include "core/group.h"
#include "engine/memory/nodes_by_id.h"
#include "penstock/request.h"

namespace penstock::engine {
namespace {

namespace intrusive = boost::intrusive;

// Expired holders that are forgotten in a call: more than come in one, so that they leave faster than they come.
constexpr int kForgottenACall = 4;

struct Node : core::Holder, intrusive::set_base_hook<intrusive::optimize_size<true>> {
  Node* chain = nullptr;
  std::string name;
};

struct ByExpiry {
  bool operator()(const Node& a, const Node& b) const { return a.expires_at < b.expires_at; }
};

using Tree = intrusive::multiset<Node, intrusive::compare<ByExpiry>, intrusive::constant_time_size<false>>;

}  // namespace

// Invariant: `live` is the first of the tree that expires after `now`, `in_use` what it and those behind it weigh, and
// `expired` how many stand before it.
struct HolderRecord::Holders final : core::HolderOrder {
  NodesById<Node> nodes;
  Tree tree;
  Tree::iterator live = tree.end();
  EngineTime now;
  Micros lease;
  int64_t in_use = 0;
  int64_t fence = 0;
  size_t expired = 0;

  Holders() = default;
  Holders(const Holders&) = delete;
  Holders& operator=(const Holders&) = delete;
  ~Holders() override { tree.clear(); }

  const core::Holder* Next(const core::Holder* after) const override {
    const auto it = after == nullptr ? Tree::const_iterator(live)
                                     : std::next(tree.iterator_to(static_cast<const Node&>(*after)));
    return it == tree.end() ? nullptr : &*it;
  }

  bool IsLive(const Node& node) const { return node.expires_at > now; }
  // Most expire later than all others.
  void Link(Node& node) {
    const auto it = tree.insert(tree.end(), node);
    if (!IsLive(node)) {
      ++expired;
      return;
    }
    in_use += node.weight;
    if (std::next(it) == live) live = it;
  }
  void Unlink(Node& node) {
    const auto it = tree.iterator_to(node);
    if (it == live) ++live;
    if (IsLive(node)) {
      in_use -= node.weight;
    } else {
      --expired;
    }
    tree.erase(it);
  }
  void Erase(Node& node) {
    Unlink(node);
    node.name.clear();
    nodes.Erase(node);
  }
};

HolderRecord::HolderRecord() noexcept = default;
HolderRecord::~HolderRecord() = default;
HolderRecord::HolderRecord(HolderRecord&& other) noexcept = default;
HolderRecord& HolderRecord::operator=(HolderRecord&& other) noexcept = default;

void HolderRecord::Begin() { holders_ = std::make_unique<Holders>(); }

int64_t HolderRecord::Open(EngineTime now, Micros lease) {
  Holders& h = *holders_;
  int64_t reclaimed = 0;
  while (h.live != h.tree.end() && h.live->expires_at <= now) {
    h.in_use -= h.live->weight;
    ++h.expired;
    ++h.live;
    ++reclaimed;
  }
  while (now < h.now && h.live != h.tree.begin() && std::prev(h.live)->expires_at > now) {
    --h.live;
    --h.expired;
    h.in_use += h.live->weight;
    --reclaimed;
  }
  h.now = now;
  h.lease = lease;
  for (int i = 0; i < kForgottenACall && h.expired > 0; ++i) {
    Node& first = *h.tree.begin();
    if (first.expires_at + lease > now && h.expired <= kMaxRemembered) break;
    h.Erase(first);
  }
  if (queue_ == nullptr) [[likely]]
    return reclaimed;
  queue_->DropExpired(now);
  DropEmptyQueue();
  return reclaimed;
}

void HolderRecord::DropEmptyQueue() {
  if (queue_->size() == 0 && queue_->IsLarge()) queue_.reset();
}

void HolderRecord::Show(const core::PermitAsk* ask, core::BucketView& view) const {
  view.state = state();
  view.holders = holders_.get();
  view.own = ask == nullptr ? nullptr : Find(ask->id);
  const bool queue = waiting() > 0;
  view.waits = queue && ask != nullptr && queue_->Has(ask->id);
  view.overtakes = queue && (ask == nullptr || !queue_->IsHead(ask->id));
}

core::BucketState HolderRecord::state() const {
  const Holders& h = *holders_;
  return {h.tree.empty() ? EngineTime{} : h.tree.rbegin()->expires_at, h.in_use, h.fence};
}

int64_t HolderRecord::in_use() const { return holders_->in_use; }

const core::HolderOrder& HolderRecord::order() const { return *holders_; }

std::string_view HolderRecord::NameOf(const core::Holder& holder) {
  return static_cast<const Node&>(holder).name;
}

const core::Holder* HolderRecord::Find(const Hash128& id) const {
  const Node* const node = holders_->nodes.Find(id);
  return node == nullptr || node->expires_at + holders_->lease <= holders_->now ? nullptr : node;
}

size_t HolderRecord::waiting() const { return queue_ == nullptr ? 0 : queue_->size(); }

bool HolderRecord::IsHead(const Hash128& id) const { return queue_ != nullptr && queue_->IsHead(id); }

// A fence that is ahead of the clock must not be given again.
EngineTime HolderRecord::IdleAt(Micros lease) const {
  const Holders& h = *holders_;
  EngineTime at{h.fence + 1};
  if (!h.tree.empty()) at = std::max(at, h.tree.rbegin()->expires_at + lease);
  return queue_ == nullptr ? at : std::max(at, queue_->LastUntil());
}

bool HolderRecord::Reserve(const core::BucketEdit& edit) {
  switch (edit.permit) {
    case core::PermitChange::kGrant:
      return holders_->nodes.Reserve();
    case core::PermitChange::kQueue:
      if (queue_ == nullptr) queue_ = std::make_unique<WaitQueue>();
      return queue_->Reserve();
    case core::PermitChange::kNone:
    case core::PermitChange::kRelease:
    case core::PermitChange::kLeave:
      return true;
  }
  return true;
}

void HolderRecord::Grant(const core::Holder& holder, std::string_view name) {
  Node* node = holders_->nodes.Find(holder.id);
  if (node != nullptr) {
    holders_->Unlink(*node);
  } else {
    node = &holders_->nodes.Insert(holder.id);
  }
  static_cast<core::Holder&>(*node) = holder;
  node->name = name.substr(0, kMaxHolderBytes);
  holders_->Link(*node);
}

void HolderRecord::Remove(const Hash128& id) {
  Node* const node = holders_->nodes.Find(id);
  if (node != nullptr) holders_->Erase(*node);
}

void HolderRecord::Renew(const Hash128& id, EngineTime expires_at) {
  Node& node = *holders_->nodes.Find(id);
  holders_->Unlink(node);
  node.expires_at = expires_at;
  holders_->Link(node);
}

void HolderRecord::RaiseFence(int64_t fence) { holders_->fence = std::max(holders_->fence, fence); }

void HolderRecord::DropHolders() {
  while (!holders_->tree.empty()) holders_->Erase(*holders_->tree.begin());
}

void HolderRecord::Queue(const Hash128& id, EngineTime until, int64_t weight,
                         const std::shared_ptr<WakePost>& post) {
  queue_->Put(id, until, weight, post);
}

bool HolderRecord::Leave(const Hash128& id) {
  if (queue_ == nullptr || !queue_->Remove(id)) return false;
  DropEmptyQueue();
  return true;
}

void HolderRecord::LeaveAllOf(const WakePost& post) {
  if (queue_ == nullptr) return;
  queue_->RemoveOf(post);
  DropEmptyQueue();
}

void HolderRecord::WakeHead(int64_t capacity, std::vector<WakeUp>& out) {
  if (queue_ != nullptr) queue_->WakeHead(capacity - holders_->in_use, out);
}

const core::Holder* HolderRecord::First() const {
  return holders_ == nullptr || holders_->tree.empty() ? nullptr : &*holders_->tree.begin();
}

const core::Holder* HolderRecord::AfterIn(const Holders& holders, const core::Holder& holder) {
  const auto it = std::next(holders.tree.iterator_to(static_cast<const Node&>(holder)));
  return it == holders.tree.end() ? nullptr : &*it;
}

}  // namespace penstock::engine
