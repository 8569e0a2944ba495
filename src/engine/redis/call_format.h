// Where what stands in the bytes of a script call: lua/README.md in numbers. For script_call.cc, which writes them, and
// call_reply.cc, which reads them again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::engine::redis {

inline constexpr size_t kPlainBytes = 8;          // a plain group: key, limit, cost
inline constexpr size_t kPlainPermitsBytes = 32;  // … and the permit's number, lease
inline constexpr size_t kGroupBytes = 30;         // mode, flags, operations, id, max_wait, keep, fingerprint
inline constexpr size_t kOperationBytes = 22;     // key, limit, unit, flags, cost, name
inline constexpr size_t kChargeBytes = 40;        // at, window, debt_before, cost, version

// Of a group.
inline constexpr uint8_t kForceFlag = 1;
inline constexpr uint8_t kPartialFlag = 2;
inline constexpr uint8_t kDryFlag = 4;
inline constexpr uint8_t kKeepIdFlag = 32;
inline constexpr uint8_t kUnlessReplayedFlag = 8;
inline constexpr uint8_t kUndoFlag = 16;
inline constexpr uint8_t kAskFlag = 64;  // a group: what it brings to hold follows its head
// What a group brings to hold: the permit's number, who asks (a session), lease, queue_for, size of the holder's name; then
// the name.
inline constexpr size_t kAskBytes = 42;
// Of an operation.
inline constexpr uint8_t kShadowFlag = 1;
inline constexpr uint8_t kStrictFlag =
    2;  // what the reply tells of it begins with the instant from which it may grant

inline constexpr size_t kNameAt = 14;  // in an operation: a hash of its bucket's key
// Of a changed operation, in a reply.
inline constexpr uint8_t kSkippedFlag = 1;
inline constexpr uint8_t kLeftAloneFlag = 2;
inline constexpr uint8_t kSaturatedFlag = 4;

// A request id's record: layout, shape, expiry, fingerprint, whether it was given again, count; then a row an operation;
// then the first answer.
inline constexpr size_t kRecordBytes = 21;
inline constexpr size_t kRowBytes = 49;  // name, whether it took part, charge
inline constexpr char kRecordShape = 0x0f;

}  // namespace penstock::engine::redis
