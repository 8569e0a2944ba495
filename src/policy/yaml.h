// A YAML document as a bounded tree in which every value knows its line. The YAML library stays behind it.
//
// Bounds: kMaxYamlBytes of text, kMaxYamlNodes values after aliases are followed, kMaxYamlDepth levels. Text must be
// UTF-8 without control characters; anchors and aliases are followed, merge keys (<<) are plain keys, tags are
// refused but for the plain string's, and a file holds one document.
//
// Thread contract: immutable once parsed. A YamlValue points into its document, which must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/diagnostics.h"

namespace penstock::policy {

inline constexpr size_t kMiB = 1024 * 1024;
inline constexpr size_t kMaxYamlBytes = 16 * kMiB;
inline constexpr size_t kMaxYamlNodes = 4'000'000;
inline constexpr size_t kMaxYamlDepth = 40;

enum class YamlKind : uint8_t { kNull, kScalar, kSequence, kMapping };

class YamlDocument;

class YamlValue {
 public:
  YamlKind kind() const;
  int line() const;
  // Of a scalar.
  std::string_view text() const;
  // Of a sequence its items; of a mapping keys and values by turns.
  std::vector<YamlValue> children() const;
  bool is_null() const { return kind() == YamlKind::kNull; }
  bool is_scalar() const { return kind() == YamlKind::kScalar; }
  bool is_sequence() const { return kind() == YamlKind::kSequence; }
  bool is_mapping() const { return kind() == YamlKind::kMapping; }
  // The value of a mapping's key, if it is there.
  std::optional<YamlValue> Find(std::string_view key) const;

 private:
  friend class YamlDocument;
  YamlValue(const YamlDocument* document, uint32_t node) : document_(document), node_(node) {}

  const YamlDocument* document_;
  uint32_t node_;
};

class YamlDocument {
 public:
  // Null when the text is no YAML or passes a bound: the error is then in the diagnostics. An empty text is a
  // document whose root is null.
  static std::unique_ptr<YamlDocument> Parse(std::string_view text, std::string_view file,
                                             Diagnostics& diagnostics);

  YamlValue root() const { return {this, 0}; }

 private:
  friend class YamlValue;
  friend class YamlBuilder;

  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    YamlKind kind = YamlKind::kNull;
    int line = 0;
    uint32_t text_begin = 0;
    uint32_t text_size = 0;
    uint32_t first_child = kNone;
    uint32_t next = kNone;
    uint32_t alias_of = kNone;  // stands for that node; only `next` is its own
    uint32_t size = 1;          // of the whole subtree, aliases followed
    uint32_t height = 1;
  };

  const Node& Resolve(uint32_t node) const;

  // Invariant: nodes_[0] is the root; alias_of names a complete node before it, which is no alias itself.
  std::vector<Node> nodes_;
  std::string text_;
};

// What stands there, for messages: "a list", "a mapping", "nothing", or the quoted text.
std::string Describe(const YamlValue& value);

}  // namespace penstock::policy
