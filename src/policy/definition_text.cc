#include "policy/definition_text.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/json_text.h"
#include "policy/diagnostics.h"
#include "policy/identity.h"
#include "policy/reader.h"

namespace penstock::policy {
namespace {

// As JSON, but with everything escaped that a policy file may not hold as it is (DEL and the controls of Latin-1).
void AppendText(std::string& out, std::string_view text) {
  std::string json;
  AppendJsonString(json, text);
  for (size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0u;
    const bool control = byte == 0xC2 && next < 0xA0;
    if (byte != 0x7F && !control) {
      out += json[i];
      continue;
    }
    out += "\\u00";
    AppendHex(out, static_cast<unsigned char>(control ? next : byte));
    if (control) ++i;
  }
}

// Writes one object, member by member.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  ~Object() { out_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  // The member's value is to be appended.
  std::string& Name(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    AppendText(out_, name);
    out_ += ':';
    return out_;
  }
  void Text(std::string_view name, std::string_view value) { AppendText(Name(name), value); }
  void Number(std::string_view name, int64_t value) { AppendInt(Name(name), value); }

 private:
  std::string& out_;
  bool first_ = true;
};

template <class Items, class Append>
void AppendList(std::string& out, const Items& items, Append&& append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append(item);
  }
  out += ']';
}

// The key of a matcher mapping, or empty: it has none of its own.
std::string_view KeyOf(MatcherKind kind) {
  switch (kind) {
    case MatcherKind::kExact:
      return "exact";
    case MatcherKind::kGlob:
      return "glob";
    case MatcherKind::kRegex:
      return "regex";
    case MatcherKind::kCidr:
      return "cidr";
    case MatcherKind::kNot:
      return "not";
    case MatcherKind::kAny:
    case MatcherKind::kAll:
      break;
  }
  return {};
}

void AppendMatcher(std::string& out, const Matcher& matcher);

// A member of a matcher mapping: {"glob": ["a*", "b*"]}.
void AppendMember(Object& object, const Matcher& matcher) {
  if (matcher.kind == MatcherKind::kNot) {
    AppendMatcher(object.Name("not"), matcher.children.front());
  } else if (matcher.kind == MatcherKind::kAny) {
    std::string& out = object.Name(KeyOf(matcher.children.front().kind));
    AppendList(out, matcher.children, [&](const Matcher& child) { AppendText(out, child.text); });
  } else {
    object.Text(KeyOf(matcher.kind), matcher.text);
  }
}

// Whether all alternatives are of one kind with a text.
bool OneKind(const Matcher& any) {
  return std::all_of(any.children.begin(), any.children.end(), [&](const Matcher& child) {
    return child.kind == any.children.front().kind && child.children.empty();
  });
}

void AppendMatcher(std::string& out, const Matcher& matcher) {
  if (matcher.kind == MatcherKind::kAny && !OneKind(matcher)) {
    return AppendList(out, matcher.children, [&](const Matcher& child) { AppendMatcher(out, child); });
  }
  Object object(out);
  if (matcher.kind != MatcherKind::kAll) return AppendMember(object, matcher);
  for (const Matcher& child : matcher.children) AppendMember(object, child);
}

void AppendMatch(std::string& out, const std::vector<Condition>& match) {
  Object object(out);
  for (const Condition& condition : match) AppendMatcher(object.Name(condition.attribute), condition.matcher);
}

void AppendKey(std::string& out, const std::vector<KeyPart>& key) {
  AppendList(out, key, [&](const KeyPart& part) {
    if (!part.address) return AppendText(out, part.attribute);
    Object object(out);
    Object masks(object.Name(part.attribute));
    masks.Number("mask4", part.mask4);
    masks.Number("mask6", part.mask6);
  });
}

void AppendOverride(std::string& out, const OverrideDefinition& change) {
  Object object(out);
  AppendMatch(object.Name("match"), change.match);
  if (change.rate) object.Text("rate", FormatRate(*change.rate));
  if (change.burst) object.Number("burst", *change.burst);
  if (change.permits) object.Number("permits", *change.permits);
}

void AppendWindow(Object& object, const LimitDefinition& limit) {
  if (limit.algorithm != core::Algorithm::kTokenBucket && !limit.permits)
    object.Text("algorithm", ToString(limit.algorithm));
  if (core::IsCalendar(limit.window)) object.Text("calendar", ToString(limit.window));
  if (limit.window == core::WindowKind::kFirstRequest) object.Text("from", "first_request");
  if (!limit.timezone.empty()) object.Text("timezone", limit.timezone);
}

// Of a text of one line only what is wrong; of more the lines too.
std::string Reasons(const Diagnostics& diagnostics, bool one_line) {
  std::string out;
  for (const Diagnostic& error : diagnostics.errors()) {
    if (!out.empty()) out += "; ";
    if (!one_line && error.line > 0) out += "line " + std::to_string(error.line) + ": ";
    out += error.message;
  }
  const size_t more = diagnostics.total() - diagnostics.errors().size();
  if (more > 0) out += "; and " + std::to_string(more) + " more";
  return out;
}

}  // namespace

std::string DefinitionText(const LimitDefinition& limit) {
  std::string out;
  {
    Object object(out);
    object.Text("name", limit.name);
    if (!limit.key.empty()) AppendKey(object.Name("key"), limit.key);
    if (!limit.match.empty()) AppendMatch(object.Name("match"), limit.match);
    if (limit.rate) object.Text("rate", FormatRate(*limit.rate));
    if (limit.burst) object.Number("burst", *limit.burst);
    AppendWindow(object, limit);
    if (limit.permits) object.Number("permits", *limit.permits);
    if (limit.lease) object.Text("lease", FormatDuration(*limit.lease));
    if (limit.strict) object.Name("strict") += "true";
    if (limit.replicas != 0) object.Number("replicas", limit.replicas);
    if (limit.unit != "requests") object.Text("unit", limit.unit);
    if (limit.shadow) object.Name("shadow") += "true";
    if (limit.on_failure) object.Text("on_failure", ToString(*limit.on_failure));
    if (!limit.overrides.empty()) {
      std::string& list = object.Name("overrides");
      AppendList(list, limit.overrides, [&](const OverrideDefinition& o) { AppendOverride(list, o); });
    }
  }
  return out;
}

Result<LimitDefinition> ReadDefinition(std::string_view text, std::string_view domain, std::string_view name,
                                       const BuildOptions& options) {
  Diagnostics diagnostics;
  const bool one_line = text.find('\n') == std::string_view::npos || text.find('\n') + 1 == text.size();
  std::optional<LimitDefinition> limit = ReadLimitText(text, name, diagnostics);
  if (limit && limit->name != name && diagnostics.ok()) {
    diagnostics.Error("", limit->lines.name,
                      "the name is " + Quoted(limit->name) + ", not " + Quoted(name) + " as the path says");
  }
  if (limit && diagnostics.ok()) {
    PolicyDefinition alone;
    alone.domains.push_back({std::string(domain), {*limit}, "", 0});
    (void)Policy::Build(alone, options, diagnostics);
  }
  if (!diagnostics.ok()) return Invalid(Reasons(diagnostics, one_line));
  return std::move(*limit);
}

}  // namespace penstock::policy
