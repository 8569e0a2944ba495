// The keys under the prefix: each has a time to live (rule E9), but for what is named as an exception.
//
// Thread contract: KeyCensus is one thread's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/value.h"

namespace penstock::checkup {

class KeyCensus {
 public:
  explicit KeyCensus(std::string_view prefix) : prefix_(prefix) {}

  // PTTL's answer for a key under the prefix: -1 is none, -2 that it has gone meanwhile. `first` is GETRANGE's of the
  // value's first byte, which says the layout; an error where it may not be asked or the value is no string.
  void Note(std::string_view key, int64_t ttl_ms, const Value& first);
  // A server's keys could not be looked at.
  void Refused(std::string_view where, std::string_view why);
  // Not all were looked at.
  void Cut() { complete_ = false; }

  uint64_t seen() const { return seen_; }
  Finding Check() const;         // "ttl"
  Finding CheckLayouts() const;  // "layout": all values are of this build's layout

 private:
  static constexpr size_t kMaxNamed = 10;

  void NoteLayout(std::string_view key, const Value& first);

  const std::string prefix_;
  uint64_t seen_ = 0;
  uint64_t excepted_ = 0;  // without TTL, as they should be
  uint64_t eternal_ = 0;   // without, and should have
  uint64_t own_layout_ = 0;
  uint64_t newer_layout_ = 0;
  uint64_t foreign_ = 0;  // no layout of ours
  int64_t longest_ms_ = 0;
  bool complete_ = true;
  std::vector<std::string> named_;  // the first of the eternal ones
  std::vector<std::string> named_foreign_;
  std::string layout_refused_;
  std::vector<std::string> refused_;  // where: why
};

// What a bucket of our own showed: it was charged, and the server has its key for `ttl_ms`, at least
// `needed` long from then on. "ttl-covers"
struct BucketTtl {
  std::string_view algorithm;
  int64_t ttl_ms = 0;  // as PTTL says it
  Micros needed;       // until no use is left, counted from PTTL's answer
};
Finding CheckBucketTtls(const std::vector<BucketTtl>& buckets);

}  // namespace penstock::checkup
