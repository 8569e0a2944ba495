#include "engine/redis/checkup/value.h"

#include "base/bytes.h"

namespace penstock::checkup {
namespace {

// Copies the node at `index` with all below it; moves `index` behind it. As deep as the parser's own bound.
Value OwnNode(std::span<const resp::ReplyNode> nodes, size_t& index) {
  const resp::ReplyNode& node = nodes[index++];
  Value value{node.type, node.integer, std::string(node.text), {}};
  value.items.reserve(node.children);
  while (index < node.end) value.items.push_back(OwnNode(nodes, index));
  return value;
}

// Up to the separator, which is taken away too.
std::string_view Cut(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return head;
}

}  // namespace

std::string_view Value::code() const { return std::string_view(text).substr(0, text.find(' ')); }

const Value& Value::At(size_t place) const {
  static const Value nothing;
  return place < items.size() ? items[place] : nothing;
}

std::optional<int64_t> Value::Number() const {
  if (is_integer()) return integer;
  return is_error() ? std::nullopt : ParseInt(text);
}

Value Own(std::span<const resp::ReplyNode> nodes) {
  size_t index = 0;
  return nodes.empty() ? Value{} : OwnNode(nodes, index);
}

Fields ParseInfo(std::string_view text) {
  Fields out;
  while (!text.empty()) {
    std::string_view line = Cut(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with('#') || line.find(':') == std::string_view::npos) continue;
    const std::string_view name = Cut(line, ':');
    out.insert_or_assign(std::string(name), std::string(line));
  }
  return out;
}

Fields ParsePairs(const Value& value) {
  Fields out;
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const Value& held = value.items[i + 1];
    if (held.is_null() || held.is_error() || !held.items.empty()) continue;
    out.insert_or_assign(value.items[i].text, held.is_integer() ? std::to_string(held.integer) : held.text);
  }
  return out;
}

Fields ParseAttributes(std::string_view text) {
  Fields out;
  while (!text.empty()) {
    std::string_view pair = Cut(text, ',');
    const std::string_view name = Cut(pair, '=');
    out.insert_or_assign(std::string(name), std::string(pair));
  }
  return out;
}

std::string_view Text(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view{} : std::string_view(found->second);
}

std::optional<int64_t> Number(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : ParseInt(found->second);
}

}  // namespace penstock::checkup
