#include "engine/permit_id.h"

#include <array>
#include <cstring>

#include "core/permits.h"
#include "engine/engine.h"

namespace penstock::engine {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr uint8_t kLayout = 1;
constexpr uint8_t kLocal = 1;
constexpr size_t kHeadBytes = 1 + 16 + 4;
constexpr size_t kPlaceBytes = 16 + 8;
constexpr size_t kMaxBytes = kHeadBytes + kMaxPermitBuckets * kPlaceBytes;
static_assert((kMaxBytes * 8 + 5) / 6 <= PermitText::kMaxBytes);

template <class Integer>
uint8_t* Put(uint8_t* out, Integer value) {
  for (size_t i = sizeof value; i-- > 0;) *out++ = static_cast<uint8_t>(value >> (8 * i));
  return out;
}

template <class Integer>
const uint8_t* Take(const uint8_t* in, Integer& value) {
  value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value = static_cast<Integer>(value << 8 | *in++);
  return in;
}

constexpr std::array<int8_t, 256> MakeDigits() {
  std::array<int8_t, 256> digits{};
  digits.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return digits;
}
constexpr std::array<int8_t, 256> kDigits = MakeDigits();

PermitText Encode(std::span<const uint8_t> bytes) {
  std::array<char, PermitText::kMaxBytes> text;
  size_t size = 0;
  uint32_t bits = 0;
  int held = 0;
  for (const uint8_t byte : bytes) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) text[size++] = kAlphabet[bits >> (held - 6) & 63];
  }
  if (held > 0) text[size++] = kAlphabet[bits << (6 - held) & 63];
  PermitText out;
  out.Assign({text.data(), size});
  return out;
}

// The bytes; none where a sign is none of base64url's, or what is left over is not 0 (so that each id has one text).
std::optional<size_t> Decode(std::string_view text, std::span<uint8_t, kMaxBytes> out) {
  if (text.size() * 6 / 8 > out.size() || text.size() % 4 == 1) return std::nullopt;
  size_t size = 0;
  uint32_t bits = 0;
  int held = 0;
  for (const char sign : text) {
    const int8_t digit = kDigits[static_cast<unsigned char>(sign)];
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out[size++] = static_cast<uint8_t>(bits >> held);
  }
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return size;
}

}  // namespace

std::optional<PermitId> ParsePermitId(std::string_view text) {
  std::array<uint8_t, kMaxBytes> bytes;
  const std::optional<size_t> size = Decode(text, bytes);
  if (!size || *size < kHeadBytes + kPlaceBytes || (*size - kHeadBytes) % kPlaceBytes != 0)
    return std::nullopt;
  PermitId permit;
  if (bytes[0] >> 4 != kLayout || (bytes[0] & ~kLocal & 15) != 0) return std::nullopt;
  permit.local = (bytes[0] & kLocal) != 0;
  const uint8_t* in = Take(Take(bytes.data() + 1, permit.id.high), permit.id.low);
  in = Take(in, permit.weight);
  if (permit.weight == 0) return std::nullopt;
  permit.size = static_cast<uint8_t>((*size - kHeadBytes) / kPlaceBytes);
  for (PermitPlace& place : std::span(permit.places.data(), permit.size)) {
    uint64_t fence = 0;
    in = Take(Take(Take(in, place.bucket.high), place.bucket.low), fence);
    place.fence = static_cast<int64_t>(fence);
  }
  return permit;
}

PermitText ToText(const PermitId& permit) {
  std::array<uint8_t, kMaxBytes> bytes;
  uint8_t* out = bytes.data();
  *out++ = static_cast<uint8_t>(kLayout << 4 | (permit.local ? kLocal : 0));
  out = Put(Put(Put(out, permit.id.high), permit.id.low), permit.weight);
  for (const PermitPlace& place : permit.held()) {
    out = Put(Put(Put(out, place.bucket.high), place.bucket.low), static_cast<uint64_t>(place.fence));
  }
  return Encode({bytes.data(), static_cast<size_t>(out - bytes.data())});
}

bool Holds(const core::Operation& operation) {
  return core::GrantsPermit(operation) && !operation.skipped &&
         operation.verdict.outcome == Outcome::kAllowed;
}

PermitId GrantedPermit(std::span<const core::Operation> operations, const GroupResult& result) {
  PermitId permit{.id = result.permit_id};
  for (const core::Operation& operation : operations) {
    if (!Holds(operation) || permit.size == kMaxPermitBuckets) continue;
    permit.weight = static_cast<uint32_t>(operation.charge.cost);
    permit.local = result.degraded;
    permit.places[permit.size++] = {operation.name, core::Permits::FenceOf(operation.charge)};
  }
  return permit;
}

}  // namespace penstock::engine
