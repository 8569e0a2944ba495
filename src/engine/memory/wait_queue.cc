#include "engine/memory/wait_queue.h"

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include "engine/memory/nodes_by_id.h"

namespace penstock::engine {
namespace {

namespace intrusive = boost::intrusive;

struct Waiter : intrusive::list_base_hook<>, intrusive::set_base_hook<> {
  Hash128 id;
  Waiter* chain = nullptr;
  EngineTime until;
  int64_t weight = 0;
  bool woken = false;  // since he last asked
  std::shared_ptr<WakePost> post;
};

struct ByUntil {
  bool operator()(const Waiter& a, const Waiter& b) const { return a.until < b.until; }
};

}  // namespace

// Invariant: every node in use stands in both orders.
struct WaitQueue::Lists {
  NodesById<Waiter> nodes;
  intrusive::list<Waiter, intrusive::constant_time_size<false>> arrival;
  intrusive::multiset<Waiter, intrusive::compare<ByUntil>, intrusive::constant_time_size<false>> by_until;

  void Erase(Waiter& waiter) {
    arrival.erase(arrival.iterator_to(waiter));
    by_until.erase(by_until.iterator_to(waiter));
    waiter.post->entries.fetch_sub(1, std::memory_order_relaxed);
    waiter.post.reset();
    nodes.Erase(waiter);
  }
};

WaitQueue::WaitQueue() : lists_(std::make_unique<Lists>()) {}

WaitQueue::~WaitQueue() {
  while (!lists_->arrival.empty()) lists_->Erase(lists_->arrival.front());
}

size_t WaitQueue::size() const { return lists_->nodes.size(); }

bool WaitQueue::IsLarge() const {
  constexpr size_t kKept = 64;
  return lists_->nodes.most() > kKept;
}

bool WaitQueue::Has(const Hash128& id) const { return lists_->nodes.Find(id) != nullptr; }

bool WaitQueue::IsHead(const Hash128& id) const {
  return !lists_->arrival.empty() && lists_->arrival.front().id == id;
}

EngineTime WaitQueue::LastUntil() const {
  return lists_->by_until.empty() ? EngineTime{} : lists_->by_until.rbegin()->until;
}

void WaitQueue::DropExpired(EngineTime now) {
  while (!lists_->by_until.empty() && lists_->by_until.begin()->until <= now) {
    lists_->Erase(*lists_->by_until.begin());
  }
}

bool WaitQueue::Reserve() { return lists_->nodes.Reserve(); }

void WaitQueue::Put(const Hash128& id, EngineTime until, int64_t weight,
                    const std::shared_ptr<WakePost>& post) {
  Waiter* waiter = lists_->nodes.Find(id);
  if (waiter == nullptr) {
    waiter = &lists_->nodes.Insert(id);
    lists_->arrival.push_back(*waiter);
  } else {
    lists_->by_until.erase(lists_->by_until.iterator_to(*waiter));
    waiter->post->entries.fetch_sub(1, std::memory_order_relaxed);
  }
  waiter->until = until;
  waiter->weight = weight;
  waiter->woken = false;
  waiter->post = post;
  post->entries.fetch_add(1, std::memory_order_relaxed);
  lists_->by_until.insert(lists_->by_until.end(), *waiter);
}

bool WaitQueue::Remove(const Hash128& id) {
  Waiter* const waiter = lists_->nodes.Find(id);
  if (waiter == nullptr) return false;
  lists_->Erase(*waiter);
  return true;
}

void WaitQueue::RemoveOf(const WakePost& post) {
  for (auto it = lists_->arrival.begin(); it != lists_->arrival.end();) {
    Waiter& waiter = *it++;
    if (waiter.post.get() == &post) lists_->Erase(waiter);
  }
}

void WaitQueue::WakeHead(int64_t room, std::vector<WakeUp>& out) {
  if (lists_->arrival.empty()) return;
  Waiter& head = lists_->arrival.front();
  if (head.woken || head.weight > room) return;
  head.woken = true;
  out.push_back({head.post, head.id});
}

}  // namespace penstock::engine
