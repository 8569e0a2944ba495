// Nodes found by their 128-bit id, out of a pool of their own: chunks that never move, so that other orders may link
// the nodes, and free nodes that are used again, so that nothing is allocated while their number stays about the same.
//
// Thread contract: under the shard's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/hash.h"

namespace penstock::engine {

// Node: default-constructible, with `Hash128 id` and `Node* chain`, which are the pool's while the node is out.
template <class Node>
class NodesById {
 public:
  size_t size() const { return size_; }
  // How many there have been at once, about.
  size_t most() const { return places_; }

  // Makes room for one more; false when there is no memory.
  bool Reserve() { return (free_ != nullptr || AddChunk()) && (size_ < places_ || Rehash()); }

  Node* Find(const Hash128& id) const {
    if (size_ == 0) return nullptr;
    Node* node = table_[PlaceOf(id)];
    while (node != nullptr && node->id != id) node = node->chain;
    return node;
  }
  // A node that is as its last user left it, but for the id. Preconditions: reserved, the id is absent.
  Node& Insert(const Hash128& id) {
    Node& node = *free_;
    free_ = node.chain;
    node.id = id;
    Link(node);
    ++size_;
    return node;
  }
  // Precondition: no other order links the node.
  void Erase(Node& node) {
    Node** at = &table_[PlaceOf(node.id)];
    while (*at != &node) at = &(*at)->chain;
    *at = node.chain;
    node.chain = free_;
    free_ = &node;
    --size_;
  }

 private:
  static constexpr size_t kFirstChunk = 2;
  static constexpr size_t kFirstPlaces = 4;
  static constexpr size_t kLargestChunk = 256;

  // Ids are random already, those of tests are not.
  size_t PlaceOf(const Hash128& id) const {
    return static_cast<size_t>((id.low * 0x9e3779b97f4a7c15ULL) >> 32) & (places_ - 1);
  }
  void Link(Node& node) {
    Node*& head = table_[PlaceOf(node.id)];
    node.chain = head;
    head = &node;
  }
  bool AddChunk() {
    const size_t count = std::min(kFirstChunk << std::min<size_t>(chunks_.size(), 16), kLargestChunk);
    std::unique_ptr<Node[]> chunk(new (std::nothrow) Node[count]);
    if (chunk == nullptr) return false;
    for (size_t i = count; i-- > 0;) {
      chunk[i].chain = free_;
      free_ = &chunk[i];
    }
    chunks_.push_back(std::move(chunk));
    return true;
  }
  bool Rehash() {
    const size_t old_places = places_;
    const size_t places = std::max(old_places * 2, kFirstPlaces);
    std::unique_ptr<Node*[]> table(new (std::nothrow) Node* [places] {});
    if (table == nullptr) return false;
    table.swap(table_);
    places_ = places;
    for (size_t i = 0; i < old_places; ++i) {
      for (Node* node = table[i]; node != nullptr;) {
        Node* const next = node->chain;
        Link(*node);
        node = next;
      }
    }
    return true;
  }

  // Invariant: size_ nodes are linked into table_, which has places_ heads (0 or a power of two), all others of the
  // chunks into free_.
  std::vector<std::unique_ptr<Node[]>> chunks_;
  std::unique_ptr<Node*[]> table_;
  size_t places_ = 0;
  size_t size_ = 0;
  Node* free_ = nullptr;
};

}  // namespace penstock::engine
