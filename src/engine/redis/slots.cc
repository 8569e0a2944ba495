#include "engine/redis/slots.h"

#include <array>
#include <cstddef>
#include <vector>

namespace penstock::engine::redis {
namespace {

constexpr std::array<uint16_t, 256> MakeTable() {
  std::array<uint16_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}

constexpr std::array<uint16_t, 256> kTable = MakeTable();

constexpr std::string_view kSigns = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr size_t kTagBytes = 4;
using Tag = std::array<char, kTagBytes>;

std::vector<Tag> FindTags() {
  std::vector<Tag> tags(kSlotCount, Tag{});
  int32_t left = kSlotCount;
  // 36^4 texts are a hundred for each slot; some 150,000 are looked at until every slot has one.
  for (size_t number = 0; left > 0; ++number) {
    Tag tag{};
    for (size_t place = kTagBytes, rest = number; place-- > 0; rest /= kSigns.size()) {
      tag[place] = kSigns[rest % kSigns.size()];
    }
    Tag& found = tags[static_cast<size_t>(SlotOfCrc(Crc16({tag.data(), tag.size()})))];
    if (found[0] != 0) continue;
    found = tag;
    --left;
  }
  return tags;
}

}  // namespace

uint16_t Crc16(std::string_view bytes, uint16_t crc) {
  uint32_t value = crc;
  for (const char byte : bytes) {
    value = ((value << 8) ^ kTable[((value >> 8) ^ static_cast<unsigned char>(byte)) & 0xff]) & 0xffff;
  }
  return static_cast<uint16_t>(value);
}

std::string_view HashTag(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

std::string_view TagOfSlot(int32_t slot) {
  static const std::vector<Tag> tags = FindTags();
  const Tag& tag = tags[static_cast<size_t>(slot)];
  return {tag.data(), tag.size()};
}

}  // namespace penstock::engine::redis
