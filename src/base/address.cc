#include "base/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"

namespace penstock {
namespace {

constexpr size_t kLongestV4Text = 15;
constexpr size_t kLongestV6Text = 45;  // six full groups and an IPv4 tail
constexpr uint64_t kMappedPrefix = 0xffff;

std::optional<uint32_t> ParseV4(std::string_view text) {
  if (text.size() > kLongestV4Text) return std::nullopt;
  uint32_t value = 0;
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && (at == text.size() || text[at++] != '.')) return std::nullopt;
    const size_t begin = at;
    uint32_t octet = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      octet = octet * 10 + static_cast<uint32_t>(text[at++] - '0');
      if (at - begin > 3) return std::nullopt;
    }
    const size_t digits = at - begin;
    // A leading zero means octal to some programs and decimal to others: refused, as inet_pton does.
    if (digits == 0 || octet > 255 || (digits > 1 && text[begin] == '0')) return std::nullopt;
    value = value << 8 | octet;
  }
  if (at != text.size()) return std::nullopt;
  return value;
}

std::optional<std::array<unsigned char, 16>> ParseV6(std::string_view text) {
  if (text.size() > kLongestV6Text || text.find('\0') != std::string_view::npos) return std::nullopt;
  char terminated[kLongestV6Text + 1];
  std::memcpy(terminated, text.data(), text.size());
  terminated[text.size()] = '\0';
  std::array<unsigned char, 16> bytes;
  if (inet_pton(AF_INET6, terminated, bytes.data()) != 1) return std::nullopt;
  return bytes;
}

uint64_t BigEndian(const unsigned char* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}

// The first `bits` bits of a word of `width` bits; bits in [0, width].
uint64_t KeepLeading(uint64_t word, int bits, int width) {
  if (bits == 0) return 0;
  return word & (~uint64_t{0} << (width - bits));
}

void AppendV4(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    AppendInt(out, value >> shift & 0xff);
    if (shift > 0) out += '.';
  }
}

void AppendHexGroup(std::string& out, unsigned group) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  bool begun = false;
  for (int shift = 12; shift >= 0; shift -= 4) {
    const unsigned digit = group >> shift & 0xf;
    begun = begun || digit != 0 || shift == 0;
    if (begun) out += kDigits[digit];
  }
}

void AppendV6(std::string& out, uint64_t high, uint64_t low) {
  std::array<unsigned, 8> groups;
  for (unsigned i = 0; i < 8; ++i) {
    const uint64_t word = i < 4 ? high : low;
    groups[i] = static_cast<unsigned>(word >> (48 - 16 * (i % 4)) & 0xffff);
  }
  size_t run_begin = 8;
  size_t run_length = 1;  // a single zero group is written out (RFC 5952, 4.2.2)
  for (size_t i = 0; i < 8; ++i) {
    size_t length = 0;
    while (i + length < 8 && groups[i + length] == 0) ++length;
    if (length > run_length) {
      run_begin = i;
      run_length = length;
    }
  }
  for (size_t i = 0; i < 8; ++i) {
    if (i == run_begin) {
      out += "::";
      i += run_length - 1;
      continue;
    }
    if (i > 0 && i != run_begin + run_length) out += ':';
    AppendHexGroup(out, groups[i]);
  }
}

}  // namespace

IpAddress IpAddress::V6(std::span<const unsigned char, 16> bytes) {
  const uint64_t high = BigEndian(bytes.data());
  const uint64_t low = BigEndian(bytes.data() + 8);
  if (high == 0 && low >> 32 == kMappedPrefix) return V4(static_cast<uint32_t>(low));
  return IpAddress(true, high, low);
}

IpAddress IpAddress::Masked(int bits) const {
  bits = std::clamp(bits, 0, max_bits());
  if (!v6_) return IpAddress(false, 0, KeepLeading(low_, bits, 32));
  return IpAddress(true, KeepLeading(high_, std::min(bits, 64), 64),
                   KeepLeading(low_, std::max(bits - 64, 0), 64));
}

void IpAddress::AppendText(std::string& out) const {
  if (v6_) {
    AppendV6(out, high_, low_);
  } else {
    AppendV4(out, static_cast<uint32_t>(low_));
  }
}

std::optional<IpAddress> ParseAddress(std::string_view text) {
  if (text.find(':') == std::string_view::npos) {
    const auto v4 = ParseV4(text);
    if (!v4) return std::nullopt;
    return IpAddress::V4(*v4);
  }
  const auto v6 = ParseV6(text);
  if (!v6) return std::nullopt;
  return IpAddress::V6(*v6);
}

std::optional<Cidr> Cidr::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view address_text = text.substr(0, slash);
  const auto address = ParseAddress(address_text);
  if (!address) return std::nullopt;
  if (slash == std::string_view::npos) return Cidr(*address, address->max_bits());

  const std::string_view bits_text = text.substr(slash + 1);
  const auto bits = ParseInt(bits_text);
  if (!bits || *bits < 0 || bits_text.front() == '-' || (bits_text.size() > 1 && bits_text.front() == '0')) {
    return std::nullopt;
  }
  const bool mapped = address->is_v4() && address_text.find(':') != std::string_view::npos;
  const int64_t own_bits = mapped ? *bits - 96 : *bits;
  if (own_bits < 0 || own_bits > address->max_bits()) return std::nullopt;
  return Cidr(*address, static_cast<int>(own_bits));
}

void Cidr::AppendText(std::string& out) const {
  network_.AppendText(out);
  out += '/';
  AppendInt(out, bits_);
}

}  // namespace penstock
