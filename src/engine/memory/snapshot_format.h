// The snapshot file. All numbers are little-endian.
//
//   head     magic (8), layout (u32), 0 (u32), hash seed (32), engine time (i64), checksum of these 56 bytes (u64)
//   blocks   kind (u32), payload length (u32), checksum of kind, length and payload (u64), payload
//
// Block kinds and their payloads:
//   buckets   u32 count of parameters, the parameters, u32 count of buckets, the buckets. One of permits has the last fence
//             (i64), u32 count of holders, and of each the id (2 u64), expiry, weight, fence (i64) and name (u16 length,
//             bytes); one with many holders stands there several times, each time with others. Who waits is not kept
//   ids       u32 count, the request ids with their verdicts and charges; before layout 3 without the permit's id
//   registry  u32 count, the limits: version (i64), revision (i64), three texts, each a u32 length and its bytes: domain/name,
//             what the file said, what was set at run time. Layout 1: 128-bit names and contents and the version
//   end       how many buckets, ids and limits there are in the file (3 u64), the last version given (i64); the last
//
// A block holds at most kMaxBlockBytes, so a reader needs no more memory than that beside the table itself, and the
// shards of a later run may be other ones.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace penstock::engine::snapshot {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they stand in memory");

inline constexpr std::string_view kMagic{"PENSNAP\n", 8};
inline constexpr uint32_t kLayout = 3;
inline constexpr uint32_t kFirstWithPermits = 3;
// Layouts that are still read. What 1 keeps of the registry is only which versions were given: every limit gets a newer
// one at its next load, and its buckets convert to the same.
inline constexpr uint32_t kOldestLayout = 1;
inline constexpr size_t kHeadBytes = 64;
inline constexpr size_t kBlockHeadBytes = 16;
inline constexpr size_t kMaxBlockBytes = 4 * 1024 * 1024;
// A block is closed once it has this much; the largest bucket (a full sliding log) adds 160 KB.
inline constexpr size_t kBlockBytes = 1024 * 1024;

inline constexpr uint32_t kMaxHoldersAnEntry = 4'096;  // at most 700 KB with their names

enum class Kind : uint32_t { kBuckets = 1, kIds = 2, kRegistry = 3, kEnd = 4 };

template <class Number>
void Append(std::string& out, Number number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}

// Takes numbers from the front of bytes. A read past the end gives 0 and is remembered.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  Number Take() {
    Number number{};
    if (bytes_.size() - at_ < sizeof number) {
      short_ = true;
      at_ = bytes_.size();
      return number;
    }
    std::memcpy(&number, bytes_.data() + at_, sizeof number);
    at_ += sizeof number;
    return number;
  }
  // As many bytes as there are, at most `size`; fewer are remembered too.
  std::string_view TakeBytes(size_t size) {
    if (bytes_.size() - at_ < size) short_ = true;
    const std::string_view bytes = bytes_.substr(at_, size);
    at_ += bytes.size();
    return bytes;
  }
  bool cut_short() const { return short_; }
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool short_ = false;
};

}  // namespace penstock::engine::snapshot
