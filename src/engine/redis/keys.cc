#include "engine/redis/keys.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/hash.h"

namespace penstock::engine::redis {
namespace {

// A byte that stands for itself. In a name neither / nor : (they end it); a comma ends a value, # begins a digest, and
// what SCAN's patterns or a shell would take for something else is escaped too.
constexpr std::array<bool, 256> MakePlain(std::string_view signs) {
  std::array<bool, 256> plain{};
  for (int c = '0'; c <= '9'; ++c) plain[static_cast<size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) plain[static_cast<size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) plain[static_cast<size_t>(c)] = true;
  for (const char sign : signs) plain[static_cast<unsigned char>(sign)] = true;
  return plain;
}
constexpr std::array<bool, 256> kPlainInName = MakePlain("-._~()");
constexpr std::array<bool, 256> kPlainInValue = MakePlain("-._~()@/:+=");

constexpr std::string_view kHex = "0123456789abcdef";
constexpr char kSeparator = ',';
constexpr char kDigestMark = '#';
constexpr int kSlotShift = 50;  // the slot's 14 bits in the first half of a name

void AppendEscaped(std::string& out, std::string_view text, const std::array<bool, 256>& plain) {
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (plain[byte]) continue;
    out.append(text, from, i - from);
    const char escaped[3] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    out.append(escaped, sizeof escaped);
    from = i + 1;
  }
  out.append(text, from);
}

// Every value's length counts, so no two lists have the same digest because of where one ends.
void AppendDigest(std::string& out, std::span<const std::string_view> values, int without) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (size_t i = 0; i < values.size(); ++i) {
    if (static_cast<int>(i) == without) continue;
    std::array<unsigned char, 8> length{};
    for (size_t byte = 0; byte < length.size(); ++byte) {
      length[byte] = static_cast<unsigned char>(values[i].size() >> (8 * byte));
    }
    EVP_DigestUpdate(context.get(), length.data(), length.size());
    EVP_DigestUpdate(context.get(), values[i].data(), values[i].size());
  }
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  out += kDigestMark;
  for (unsigned int i = 0; i < size; ++i) {
    out += kHex[digest[i] >> 4];
    out += kHex[digest[i] & 15];
  }
}

// All values but the one numbered `without`.
void AppendValues(std::string& out, std::span<const std::string_view> values, int without) {
  const size_t begin = out.size();
  bool first = true;
  bool fits = true;
  for (size_t i = 0; i < values.size() && fits; ++i) {
    if (static_cast<int>(i) == without) continue;
    if (!first) out += kSeparator;
    first = false;
    // A value that is too long as it is need not be written first.
    fits = values[i].size() <= kMaxValueBytes;
    if (fits) AppendEscaped(out, values[i], kPlainInValue);
    fits = fits && out.size() - begin <= kMaxValueBytes;
  }
  if (fits) return;
  out.resize(begin);
  AppendDigest(out, values, without);
}

// The same on every node of every build: it is part of a name that they share.
std::string IdentityText(std::string_view identity) {
  const uint64_t hash = Checksum64(identity);
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kHex[(hash >> shift) & 15];
  return out;
}

}  // namespace

Result<void> CheckPrefix(std::string_view prefix) {
  if (prefix.size() > kMaxPrefixBytes) {
    return Invalid("a key prefix has at most " + std::to_string(kMaxPrefixBytes) + " bytes");
  }
  for (const char c : prefix) {
    if (c > ' ' && c <= '~' && std::string_view("{}*?[]\\\"'").find(c) == std::string_view::npos) continue;
    return Invalid("a key prefix is made of printable signs without spaces, quotes and {}*?[]\\");
  }
  return {};
}

BucketKeys::BucketKeys(std::string_view prefix, const core::Limit& limit)
    : shard_part_(limit.shard_part),
      permits_(core::IsPermits(limit)),
      prefix_(permits_ ? prefix : std::string_view()) {
  head_ = prefix;
  head_ += '{';
  tag_begin_ = head_.size();
  AppendEscaped(head_, limit.domain, kPlainInName);
  std::string name;
  AppendEscaped(name, limit.name, kPlainInName);
  name += ':';
  name += IdentityText(limit.identity);
  name += ':';
  if (shard_part_ < 0) {
    head_ += '/';
    head_ += name;
  } else {
    head_ += ':';
    rest_ = name;
  }
  head_crc_ = Crc16(std::string_view(head_).substr(tag_begin_));
}

BucketKeys::Tag BucketKeys::AppendKey(std::string& out, std::span<const std::string_view> values) const {
  const size_t begin = out.size();
  out += head_;
  if (shard_part_ < 0) {
    AppendValues(out, values, -1);
    out += '}';
    return {begin + head_.size(), out.size() - 1};
  }
  AppendValues(out, values.subspan(static_cast<size_t>(shard_part_), 1), -1);
  const size_t end = out.size();
  out += '}';
  out += rest_;
  AppendValues(out, values, shard_part_);
  return {begin + head_.size(), end};
}

Hash128 BucketKeys::AppendReadable(std::string& out, std::span<const std::string_view> values) const {
  const size_t begin = out.size();
  const Tag tag = AppendKey(out, values);
  const auto slot = static_cast<uint64_t>(
      SlotOfCrc(Crc16(std::string_view(out).substr(tag.begin, tag.end - tag.begin), head_crc_)));
  out.erase(begin, prefix_.size());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(out.data() + begin, out.size() - begin, digest.data(), &size, EVP_sha256(), nullptr);
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
                           [](char c) { return c == '{' || c == '}'; }),
            out.end());
  Hash128 name;
  for (size_t i = 0; i < 8; ++i) {
    name.high = name.high << 8 | digest[i];
    name.low = name.low << 8 | digest[8 + i];
  }
  name.high = slot << kSlotShift | name.high >> (64 - kSlotShift);
  return name;
}

int32_t SlotOfPermits(const Hash128& bucket) { return static_cast<int32_t>(bucket.high >> kSlotShift); }

void AppendPermitKey(std::string& out, std::string_view prefix, const Hash128& bucket) {
  out += prefix;
  out += '{';
  out += TagOfSlot(SlotOfPermits(bucket));
  out += "}p:";
  for (const uint64_t half : {bucket.high, bucket.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) out += kHex[(half >> shift) & 15];
  }
}

void AppendHash(std::string& out, const Hash128& hash) {
  for (const uint64_t half : {hash.high, hash.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(half >> shift);
  }
}

Hash128 TakeHash(const char* in) {
  Hash128 hash;
  for (size_t i = 0; i < 8; ++i) {
    hash.high = hash.high << 8 | static_cast<unsigned char>(in[i]);
    hash.low = hash.low << 8 | static_cast<unsigned char>(in[8 + i]);
  }
  return hash;
}

int32_t BucketKeys::Append(std::string& out, std::span<const std::string_view> values) const {
  if (permits_) {
    std::string readable;
    const Hash128 name = AppendReadable(readable, values);
    AppendPermitKey(out, prefix_, name);
    return SlotOfPermits(name);
  }
  const Tag tag = AppendKey(out, values);
  return SlotOfCrc(Crc16(std::string_view(out).substr(tag.begin, tag.end - tag.begin), head_crc_));
}

void BucketKeys::AppendWithoutSlot(std::string& out, std::span<const std::string_view> values) const {
  if (permits_) return static_cast<void>(Append(out, values));
  AppendKey(out, values);
}

namespace {

void AppendSlot(std::string& out, std::string_view prefix, int32_t slot) {
  out += prefix;
  if (slot < 0) return;
  out += '{';
  out += TagOfSlot(slot);
  out += '}';
}

}  // namespace

void AppendMarkerKey(std::string& out, std::string_view prefix, int32_t slot) {
  AppendSlot(out, prefix, slot);
  out += "strict";
}

void AppendIdKey(std::string& out, std::string_view prefix, int32_t slot, std::string_view domain,
                 std::string_view id) {
  AppendSlot(out, prefix, slot);
  out += "id:";
  AppendEscaped(out, domain, kPlainInName);
  out += ':';
  AppendEscaped(out, id, kPlainInValue);
}

}  // namespace penstock::engine::redis
