// IP addresses as values: parsed from text, normalised, masked, matched against networks, written back.
//
// An IPv4-mapped IPv6 address (::ffff:192.0.2.1) is the IPv4 address from the moment it is parsed, so one
// caller never has two keys. Consequently an IPv6 network never contains an IPv4 address, not even ::/0: who
// means both writes 0.0.0.0/0 too. Plain values: no locks, no allocation but AppendText's string.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

class IpAddress {
 public:
  // 0.0.0.0
  constexpr IpAddress() = default;
  static constexpr IpAddress V4(uint32_t host_order) { return IpAddress(false, 0, host_order); }
  // Sixteen bytes in network order; IPv4-mapped becomes IPv4.
  static IpAddress V6(std::span<const unsigned char, 16> bytes);

  constexpr bool is_v4() const { return !v6_; }
  constexpr int max_bits() const { return v6_ ? 128 : 32; }

  // The network of this address: all but the first `bits` bits are zero. Bits outside [0, max_bits()] are
  // taken as the nearest bound, so that one mask4 and one mask6 can be applied to whatever comes.
  IpAddress Masked(int bits) const;

  // Canonical text: dotted decimals, or RFC 5952 (lower case, the longest run of zero groups as "::").
  void AppendText(std::string& out) const;

  friend constexpr bool operator==(const IpAddress&, const IpAddress&) = default;
  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  constexpr IpAddress(bool v6, uint64_t high, uint64_t low) : v6_(v6), high_(high), low_(low) {}

  // An IPv4 address stands in low_'s lower 32 bits; high_ and the rest are then zero.
  bool v6_ = false;
  uint64_t high_ = 0;
  uint64_t low_ = 0;
};

// Four decimals without leading zeros, or IPv6 text as RFC 4291 writes it. No brackets, port, zone, white
// space.
std::optional<IpAddress> ParseAddress(std::string_view text);

// A network: an address and how many leading bits count.
class Cidr {
 public:
  // "10.0.0.0/8", "2001:db8::/32", or a bare address, which is a network of one. Set bits behind the mask are
  // dropped. A mapped network (::ffff:10.0.0.0/104) is the IPv4 one; one that is wider than /96 is refused.
  static std::optional<Cidr> Parse(std::string_view text);

  bool Contains(const IpAddress& address) const {
    return address.is_v4() == network_.is_v4() && address.Masked(bits_) == network_;
  }

  const IpAddress& network() const { return network_; }
  int bits() const { return bits_; }
  void AppendText(std::string& out) const;

  friend bool operator==(const Cidr&, const Cidr&) = default;

 private:
  Cidr(const IpAddress& address, int bits) : network_(address.Masked(bits)), bits_(bits) {}

  // network_ has no set bit behind bits_.
  IpAddress network_;
  int bits_;
};

}  // namespace penstock
