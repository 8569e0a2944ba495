// The client's side of RESP2 and RESP3: one reply at a time, as a flat tree of nodes whose texts are views
// into the buffer. It serves the load generator, the command line and the Redis engine.
//
// Nodes stand in reading order, the root first. A node's first child is the next node, and `end` is the index
// behind its whole subtree: so the children of i are i + 1, nodes[i + 1].end, … until nodes[i].end. A map's
// children are key, value, key, value. Errors are values of type kError. Attributes (`|`) are read and
// dropped. Null in any spelling is kNull. Streamed types (`$?`, `*?`), which no server sends, are refused.
//
// Like the request parser it remembers how far it came: after kNeedMore bring the same bytes (at any address)
// and more. The vector of nodes is reused, so replies of a usual shape allocate nothing.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "resp/protocol.h"

namespace penstock::resp {

enum class ReplyType : uint8_t {
  kNull,
  kSimple,
  kError,  // simple and bulk errors
  kInteger,
  kBulk,
  kBoolean,
  kDouble,
  kBigNumber,
  kVerbatim,  // text without its three-letter format
  kArray,
  kMap,
  kSet,
  kPush,  // out of band: no answer to a command
};

struct ReplyNode {
  ReplyType type = ReplyType::kNull;
  uint32_t children = 0;       // direct ones; of a map twice its pairs
  uint32_t end = 0;            // index of the node behind this one and all below it
  int64_t integer = 0;         // kInteger, kBoolean (0 or 1)
  double real = 0;             // kDouble
  std::string_view text = {};  // kSimple, kError, kBulk, kBigNumber, kVerbatim; kDouble as it was spelt
  size_t offset = 0;           // where text starts, from the reply's first byte
};

// What a server may send. All bounds are inclusive.
struct ReplyLimits {
  uint32_t max_depth = 32;             // aggregates within each other, attributes too
  uint32_t max_nodes = 1'048'576;      // 56 bytes of memory each
  size_t max_line_bytes = 64 * 1'024;  // a simple string, error or number
  size_t max_bulk_bytes = 64 * 1'024 * 1'024;
  size_t max_reply_bytes = 128 * 1'024 * 1'024;
};

static_assert(sizeof(ReplyNode) == 56);

class ReplyParser {
 public:
  explicit ReplyParser(const ReplyLimits& limits = {}) : limits_(limits) {}

  // `unread` starts at the first byte not yet consumed.
  ParseResult Parse(std::string_view unread);

  // After kDone, until the next Parse(); the texts live as long as the bytes in the buffer.
  std::span<const ReplyNode> nodes() const { return nodes_; }
  const ReplyNode& root() const { return nodes_.front(); }

  // After kError: what was wrong, for a log.
  std::string_view error() const { return error_; }

  // Forgets a half-read reply (a new connection).
  void Reset();

 private:
  struct Frame {
    uint32_t node;
    uint32_t remaining;
    bool attribute;
  };

  ParseStatus ParseElement(std::string_view reply);
  ParseStatus ParseInteger(std::string_view reply);
  ParseStatus ParseBulk(std::string_view reply, ReplyType type);
  ParseStatus ParseAggregate(std::string_view reply, ReplyType type, bool attribute);
  ParseStatus ParseLine(std::string_view reply, ReplyType type);
  ParseStatus TakeLine(ReplyNode& node);
  ParseStatus Scan(std::string_view reply, int64_t& value);
  ParseStatus Leaf(const ReplyNode& node);
  ParseStatus Refuse(std::string_view what);
  void Finished();

  const ReplyLimits limits_;
  // Invariant: the element at pos_ is the next one to read; frames_ are the aggregates it lies in, outermost
  // first.
  std::vector<ReplyNode> nodes_;
  std::vector<Frame> frames_;
  size_t pos_ = 0;      // from the reply's first byte
  size_t scanned_ = 0;  // bytes known to hold no end of the line at pos_
  bool fresh_ = true;   // the next call starts a new reply
  bool complete_ = false;
  std::string_view error_;  // a literal
};

}  // namespace penstock::resp
