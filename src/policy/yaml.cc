#include "policy/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>

namespace penstock::policy {
namespace {

// Leaves the YAML library's parser at a bound; never passes this file.
struct Refused {
  int line;
  std::string message;
};

int LineOf(const YAML::Mark& mark) { return mark.line + 1; }

// How many bytes the UTF-8 character at the front of text has; 0 when it is none, or one that a policy may not hold.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) {
    const bool control = (first < 0x20 && first != '\t' && first != '\n' && first != '\r') || first == 0x7F;
    return control ? 0 : 1;
  }
  if (first >= 0xC2 && first < 0xE0) return follows(1) && !(first == 0xC2 && byte(1) < 0xA0) ? 2 : 0;
  if (first < 0xE0) return 0;
  if (first < 0xF0) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first > 0xF4) return 0;
  const bool overlong = first == 0xF0 && byte(1) < 0x90;
  const bool beyond = first == 0xF4 && byte(1) >= 0x90;
  return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
}

// The library takes some control characters for the end of the text, so half a policy could pass for a whole one.
void CheckText(std::string_view text) {
  int line = 1;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) throw Refused{line, "a byte that is no UTF-8 text, or a control character"};
    if (text[0] == '\n') ++line;
    text.remove_prefix(bytes);
  }
}

std::string TooManyValues() { return "more than " + std::to_string(kMaxYamlNodes) + " values"; }
std::string TooDeep() { return "more than " + std::to_string(kMaxYamlDepth) + " levels deep"; }

}  // namespace

class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw Refused{LineOf(mark), "a second document in one file"};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Add(YamlKind::kNull, mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    CheckTag(mark, tag);
    Open(YamlKind::kSequence, mark, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    CheckTag(mark, tag);
    Open(YamlKind::kMapping, mark, anchor);
  }
  void OnMapEnd() override { Close(); }

  bool empty() const { return document_.nodes_.empty(); }

 private:
  using Node = YamlDocument::Node;
  struct Level {
    uint32_t node;
    uint32_t last_child = YamlDocument::kNone;
    YAML::anchor_t anchor;
  };

  static void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    // "?" and "!" are the library's words for plain and quoted values without a tag.
    if (!tag.empty() && tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:str") {
      throw Refused{LineOf(mark), "the tag " + Quoted(tag) + " is not taken"};
    }
  }

  uint32_t Add(YamlKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    auto& nodes = document_.nodes_;
    if (nodes.size() >= kMaxYamlNodes) throw Refused{LineOf(mark), TooManyValues()};
    const auto number = static_cast<uint32_t>(nodes.size());
    Node& node = nodes.emplace_back();
    node.kind = kind;
    node.line = LineOf(mark);
    if (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.last_child == YamlDocument::kNone) {
        nodes[level.node].first_child = number;
      } else {
        nodes[level.last_child].next = number;
      }
      level.last_child = number;
    }
    const bool complete = kind == YamlKind::kNull || kind == YamlKind::kScalar;
    if (anchor != 0 && complete) anchors_[anchor] = number;
    if (complete) Grow(1, 1, node.line);
    return number;
  }

  // Counts a finished child into the level it stands on.
  void Grow(uint64_t size, uint32_t height, int line) {
    if (levels_.empty()) return;
    Node& parent = document_.nodes_[levels_.back().node];
    if (parent.size + size > kMaxYamlNodes) throw Refused{line, "aliases that stand for " + TooManyValues()};
    parent.size += static_cast<uint32_t>(size);
    if (height + 1 > parent.height) parent.height = height + 1;
    if (levels_.size() + height > kMaxYamlDepth) throw Refused{line, TooDeep()};
  }

  void Open(YamlKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (levels_.size() >= kMaxYamlDepth) throw Refused{LineOf(mark), TooDeep()};
    levels_.push_back({Add(kind, mark, 0), YamlDocument::kNone, anchor});
  }

  void Close() {
    const Level level = levels_.back();
    levels_.pop_back();
    if (level.anchor != 0) anchors_[level.anchor] = level.node;
    const Node& node = document_.nodes_[level.node];
    Grow(node.size, node.height, node.line);
  }

  YamlDocument& document_;
  std::vector<Level> levels_;
  std::unordered_map<YAML::anchor_t, uint32_t> anchors_;  // complete nodes only
  int documents_ = 0;
};

void YamlBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const auto target = anchors_.find(anchor);
  if (target == anchors_.end()) throw Refused{LineOf(mark), "an alias that stands inside what it names"};
  const uint32_t number = Add(YamlKind::kNull, mark, 0);
  document_.nodes_[number].alias_of = target->second;
  const Node& meant = document_.nodes_[target->second];
  // Add has counted one value already.
  Grow(meant.size - 1, meant.height, LineOf(mark));
}

void YamlBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& value) {
  CheckTag(mark, tag);
  const uint32_t number = Add(YamlKind::kScalar, mark, anchor);
  Node& node = document_.nodes_[number];
  if (value.find('\0') != std::string::npos) throw Refused{node.line, "a NUL in a value"};
  node.text_begin = static_cast<uint32_t>(document_.text_.size());
  node.text_size = static_cast<uint32_t>(value.size());
  document_.text_ += value;
}

std::unique_ptr<YamlDocument> YamlDocument::Parse(std::string_view text, std::string_view file,
                                                  Diagnostics& diagnostics) {
  if (text.size() > kMaxYamlBytes) {
    diagnostics.Error(file, 0, "the file is larger than " + std::to_string(kMaxYamlBytes / kMiB) + " MiB");
    return nullptr;
  }
  auto document = std::make_unique<YamlDocument>();
  YamlBuilder builder(*document);
  try {
    CheckText(text);
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    // Bounded: every round takes a document, and the builder refuses the second.
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    diagnostics.Error(file, refused.line, refused.message);
    return nullptr;
  } catch (const YAML::Exception& exception) {
    diagnostics.Error(file, exception.mark.is_null() ? 0 : LineOf(exception.mark),
                      "no YAML: " + exception.msg);
    return nullptr;
  }
  if (builder.empty()) document->nodes_.emplace_back();
  return document;
}

const YamlDocument::Node& YamlDocument::Resolve(uint32_t node) const {
  const Node& found = nodes_[node];
  return found.alias_of == kNone ? found : nodes_[found.alias_of];
}

YamlKind YamlValue::kind() const { return document_->Resolve(node_).kind; }
int YamlValue::line() const { return document_->nodes_[node_].line; }

std::string_view YamlValue::text() const {
  const auto& node = document_->Resolve(node_);
  return std::string_view(document_->text_).substr(node.text_begin, node.text_size);
}

std::vector<YamlValue> YamlValue::children() const {
  std::vector<YamlValue> out;
  for (uint32_t child = document_->Resolve(node_).first_child; child != YamlDocument::kNone;
       child = document_->nodes_[child].next) {
    out.push_back({document_, child});
  }
  return out;
}

std::optional<YamlValue> YamlValue::Find(std::string_view key) const {
  if (!is_mapping()) return std::nullopt;
  const auto entries = children();
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    if (entries[i].is_scalar() && entries[i].text() == key) return entries[i + 1];
  }
  return std::nullopt;
}

std::string Describe(const YamlValue& value) {
  switch (value.kind()) {
    case YamlKind::kNull:
      return "nothing";
    case YamlKind::kScalar:
      return Quoted(value.text());
    case YamlKind::kSequence:
      return "a list";
    case YamlKind::kMapping:
      return "a mapping";
  }
  return {};
}

}  // namespace penstock::policy
