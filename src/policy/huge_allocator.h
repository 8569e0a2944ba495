// An allocator for arrays that are read at random and may be large: from two megabytes on they are aligned to huge pages
// and the kernel is asked for those, so that a read that misses the cache does not miss the address translation too.
//
// Thread contract: any thread, as operator new.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace penstock::policy {

template <class T>
class HugeAllocator {
 public:
  using value_type = T;

  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}  // NOLINT(google-explicit-constructor): what containers ask for

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kHugePage) return static_cast<T*>(::operator new(bytes));
    void* const memory = ::operator new (bytes, std::align_val_t{kHugePage});
    // A hint: where the kernel does not take it, small pages serve.
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < kHugePage) {
      ::operator delete(memory);
    } else {
      ::operator delete (memory, std::align_val_t{kHugePage});
    }
  }

  friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
};

}  // namespace penstock::policy
