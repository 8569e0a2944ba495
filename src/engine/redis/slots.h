// Which of a cluster's 16384 slots a key belongs to, by Redis' own rule.
//
// Thread contract: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::engine::redis {

inline constexpr int32_t kSlotCount = 16'384;

// CRC16/XMODEM (polynomial 0x1021, begins with 0), continued from an earlier call's result.
uint16_t Crc16(std::string_view bytes, uint16_t crc = 0);

// What of a key is hashed: the bytes between the first { and the next }, if there are any; else the whole key.
std::string_view HashTag(std::string_view key);

constexpr int32_t SlotOfCrc(uint16_t crc) { return crc & (kSlotCount - 1); }
inline int32_t SlotOf(std::string_view key) { return SlotOfCrc(Crc16(HashTag(key))); }

// The shortest way to a key in a given slot: four of 0-9a-z whose own slot it is, for a hash tag. Of all that would do
// it is the first in the order of those 36 signs, so that every node of every build takes the same. Precondition: slot
// in [0, kSlotCount). Lives as long as the process.
std::string_view TagOfSlot(int32_t slot);

}  // namespace penstock::engine::redis
