// The names under which Penstock keeps things in a Redis: readable, and so that no two different things share one and
// everything of one decision in one slot has the slot's number.
//
//   a bucket               <prefix>{<domain>/<limit>:<identity>:<values>}
//   the same, sharded      <prefix>{<domain>:<value of shard_by>}<limit>:<identity>:<the other values>
//   a bucket of permits    <prefix>{<tag of the slot>}p:<the bucket's name>
//   a request id, no slots <prefix>id:<domain>:<id>
//   a request id, slots    <prefix>{<tag of the slot>}id:<domain>:<id>
//   a marker, no slots     <prefix>strict
//   a marker, slots        <prefix>{<tag of the slot>}strict
//
// <identity> is a hash of Limit::identity (16 hexadecimal digits). Values are joined with commas; every byte of a name,
// value or id but A-Z a-z 0-9 and some signs is written as %XX, so braces, commas, spaces, line feeds and zero bytes
// stand nowhere raw. Values that would take more than kMaxValueBytes are written as # and the SHA-256 of all of them.
//
// A bucket of permits is asked for by its name alone (engine/permit_call.h): 14 bits of the slot in which another bucket
// with these values would stand, and 114 bits of a SHA-256 of its readable key, which the bucket has inside.
//
// A request id's key depends on nothing but domain, id and slot: a repeat finds it on every slot that both it and the
// first request touch, whatever other buckets they have. (The slot's own tag, see TagOfSlot, stands in for that of a
// bucket: which bucket is the first in a slot changes with the policy.)
//
// Thread contract: BucketKeys is immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "core/limit.h"
#include "engine/redis/slots.h"

namespace penstock::engine::redis {

// The longest that the values (sharded: the tag's value, and the others) may be when written out.
inline constexpr size_t kMaxValueBytes = 512;
inline constexpr size_t kMaxPrefixBytes = 128;

// Whether a prefix can stand before all that: printable ASCII without braces (they would take the hash tag's place),
// spaces and the signs of SCAN's patterns (it is also part of an ACL rule), at most kMaxPrefixBytes long; may be empty.
Result<void> CheckPrefix(std::string_view prefix);

// What the keys of a limit's buckets have in common, made once a limit.
class BucketKeys {
 public:
  // Precondition: CheckPrefix(prefix).
  BucketKeys(std::string_view prefix, const core::Limit& limit);

  // Appends the key of the bucket with these values (one for each of Limit::key_names). Returns its slot.
  int32_t Append(std::string& out, std::span<const std::string_view> values) const;
  // The same where there are no slots: a little cheaper.
  void AppendWithoutSlot(std::string& out, std::span<const std::string_view> values) const;

  // Of a permit limit. Append gives the key by the bucket's name.
  bool permits() const { return permits_; }
  // Appends the readable key without prefix and braces; the name.
  Hash128 AppendReadable(std::string& out, std::span<const std::string_view> values) const;

 private:
  // Where the hash tag stands in what was appended.
  struct Tag {
    size_t begin = 0;
    size_t end = 0;
  };
  Tag AppendKey(std::string& out, std::span<const std::string_view> values) const;

  std::string head_;   // up to the first value, or to the value of shard_by
  std::string rest_;   // sharded: between the tag and the other values
  size_t tag_begin_;   // in head_
  uint16_t head_crc_;  // of what of the tag stands in head_
  int shard_part_;     // as Limit::shard_part
  bool permits_;
  std::string prefix_;  // permits
};

// The key of a bucket of permits, and its slot.
int32_t SlotOfPermits(const Hash128& bucket);
void AppendPermitKey(std::string& out, std::string_view prefix, const Hash128& bucket);
// As the scripts have them.
void AppendHash(std::string& out, const Hash128& hash);
Hash128 TakeHash(const char* in);  // 16 bytes

// The key of a request's id. `slot` is that of the buckets it stands with, or Exchange::kNoSlot.
void AppendIdKey(std::string& out, std::string_view prefix, int32_t slot, std::string_view domain,
                 std::string_view id);

// The key of the marker by which strict limits tell that the store may have lost what it granted; `slot` likewise.
void AppendMarkerKey(std::string& out, std::string_view prefix, int32_t slot);

}  // namespace penstock::engine::redis
