#include "engine/redis/checkup/key_check.h"

#include <algorithm>

#include "engine/redis/checkup/lasting_keys.h"
#include "engine/redis/packed_limit.h"

namespace penstock::checkup {
namespace {

constexpr size_t kMaxNameBytes = 120;
// Values that begin with a byte up to this are taken for layouts to come: it is below all printable text.
constexpr int kMaxLayout = 31;
// A key outlives what it means by less than this: rounding, and the time that the question takes.
constexpr Micros kSlack = Seconds(120);

// For a person: what a terminal should not get is shown as '?'.
std::string Printable(std::string_view key) {
  std::string out(key.substr(0, kMaxNameBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (key.size() > kMaxNameBytes) out += "...";
  return out;
}

}  // namespace

void KeyCensus::Note(std::string_view key, int64_t ttl_ms, const Value& first) {
  if (ttl_ms == -2) return;
  ++seen_;
  if (!IsBookKey(prefix_, key)) NoteLayout(key, first);
  longest_ms_ = std::max(longest_ms_, ttl_ms);
  if (ttl_ms != -1) return;
  if (IsLastingKey(prefix_, key)) {
    ++excepted_;
    return;
  }
  ++eternal_;
  if (named_.size() < kMaxNamed) named_.push_back(Printable(key));
}

void KeyCensus::NoteLayout(std::string_view key, const Value& first) {
  if (first.is_error() && first.code() != "WRONGTYPE") {
    layout_refused_ = first.text;
    return;
  }
  const int layout = first.text.empty() ? 0 : static_cast<unsigned char>(first.text.front());
  if (layout == engine::redis::kLayout) {
    ++own_layout_;
  } else if (layout > engine::redis::kLayout && layout <= kMaxLayout) {
    ++newer_layout_;
  } else {
    ++foreign_;
    if (named_foreign_.size() < kMaxNamed) named_foreign_.push_back(Printable(key));
  }
}

void KeyCensus::Refused(std::string_view where, std::string_view why) {
  refused_.push_back(std::string(where) + ": " + std::string(why));
}

Finding KeyCensus::Check() const {
  Finding finding("ttl");
  finding.figure = std::to_string(seen_) + " keys under \"" + prefix_ + "\"" +
                   (complete_ ? "" : " (not all were looked at)") + ", " + std::to_string(eternal_) +
                   " without TTL";
  if (excepted_ > 0) finding.figure += " but for " + std::to_string(excepted_) + " of registered limits";
  if (seen_ == 0 && !refused_.empty()) finding.figure = "not known";
  finding.Add(Status::kOk, "", "the longest TTL is " + std::to_string(longest_ms_ / 1'000) + " s",
              "what is no longer used goes by itself");
  for (const std::string& refused : refused_) {
    finding.Add(Status::kSkipped, "", refused, "could not be asked: the user may not list the keys",
                "add +scan and +pttl to the user that verify runs as");
  }
  for (const std::string& name : named_) {
    finding.Add(
        Status::kWarning, "", "without TTL: " + name,
        "keys that Penstock did not make, or that lost their TTL, stay for ever; under a bucket's name they "
        "make its decisions unavailable",
        "find who writes under this prefix, then delete them; give Penstock a prefix of its own");
  }
  return finding;
}

Finding KeyCensus::CheckLayouts() const {
  Finding finding("layout");
  if (!layout_refused_.empty()) {
    finding.figure = "not known";
    finding.Add(Status::kSkipped, "", layout_refused_,
                "could not be asked: the user may not look at the values",
                "add +getrange to the user that verify runs as");
    return finding;
  }
  finding.figure = std::to_string(own_layout_) + " values in layout " +
                   std::to_string(engine::redis::kLayout) + ", " + std::to_string(newer_layout_) +
                   " newer, " + std::to_string(foreign_) + " foreign";
  finding.Add(Status::kOk, "", finding.figure, "this build can read every value under the prefix");
  if (newer_layout_ > 0) {
    finding.Add(Status::kWarning, "", std::to_string(newer_layout_) + " values in a newer layout",
                "nodes of a newer build write here; nodes of this one answer unavailable for those buckets",
                "finish the roll-out");
  }
  for (const std::string& name : named_foreign_) {
    finding.Add(
        Status::kWarning, "", "not Penstock's: " + name,
        "something else writes under the prefix; under a bucket's name it makes decisions unavailable",
        "find who writes under this prefix; give Penstock one of its own");
  }
  return finding;
}

Finding CheckBucketTtls(const std::vector<BucketTtl>& buckets) {
  Finding finding("ttl-covers");
  for (const BucketTtl& bucket : buckets) {
    const std::string what = "TTL " + std::to_string(bucket.ttl_ms) + " ms, in use for " +
                             std::to_string(CeilMillis(bucket.needed)) + " ms";
    if (finding.figure.empty()) finding.figure = std::string(bucket.algorithm) + ": " + what;
    if (bucket.ttl_ms < 0 || Millis(bucket.ttl_ms + 1) < bucket.needed) {
      finding.figure = std::string(bucket.algorithm) + ": " + what;
      finding.Add(Status::kFailed, bucket.algorithm, what,
                  bucket.ttl_ms == -1 ? "a bucket that was charged has no TTL and stays for ever"
                                      : "a bucket that was charged goes before its use is over",
                  "something else changes keys under the prefix: give Penstock one of its own");
    } else if (Millis(bucket.ttl_ms) > bucket.needed + kSlack) {
      finding.figure = std::string(bucket.algorithm) + ": " + what;
      finding.Add(Status::kWarning, bucket.algorithm, what,
                  "a bucket stays longer than its use: memory for nothing",
                  "something else changes keys under the prefix: give Penstock one of its own");
    } else {
      finding.Add(Status::kOk, bucket.algorithm, what, "a bucket lives as long as its use, and not longer");
    }
  }
  if (buckets.empty()) {
    finding.figure = "no bucket";
    finding.Add(Status::kSkipped, "", "no bucket of ours could be charged", "could not be asked");
  }
  return finding;
}

}  // namespace penstock::checkup
