#include "policy/reader.h"

#include <algorithm>

#include "policy/matcher.h"
#include "policy/option_reader.h"
#include "policy/policy.h"

namespace penstock::policy {
namespace {

constexpr std::pair<std::string_view, core::Algorithm> kAlgorithms[] = {
    {"token_bucket", core::Algorithm::kTokenBucket},
    {"fixed_window", core::Algorithm::kFixedWindow},
    {"sliding_window", core::Algorithm::kSlidingWindow},
    {"sliding_log", core::Algorithm::kSlidingLog}};
constexpr std::pair<std::string_view, core::WindowKind> kCalendars[] = {{"day", core::WindowKind::kDay},
                                                                        {"week", core::WindowKind::kWeek},
                                                                        {"month", core::WindowKind::kMonth},
                                                                        {"year", core::WindowKind::kYear}};
constexpr std::pair<std::string_view, core::OnFailure> kOnFailures[] = {
    {"allow", core::OnFailure::kAllow}, {"deny", core::OnFailure::kDeny}, {"local", core::OnFailure::kLocal}};

// The value of a word that the table's choices have let through.
template <class Value, size_t N>
std::optional<Value> Lookup(const std::pair<std::string_view, Value> (&words)[N],
                            const std::optional<std::string>& word) {
  if (!word) return std::nullopt;
  for (const auto& [name, value] : words) {
    if (name == *word) return value;
  }
  return std::nullopt;
}

class NativeReader {
 public:
  explicit NativeReader(const Reporter& reporter) : reporter_(reporter) {}

  void ReadFile(const YamlValue& root, PolicyFile& out);
  // `name` is the limit's where it says none; empty: it must.
  LimitDefinition ReadLimit(const YamlValue& value, std::string_view name = {});

 private:
  void ReadDomains(const YamlValue& value, PolicyFile& out);
  void ReadWindow(OptionReader& options, LimitDefinition& limit);
  OverrideDefinition ReadOverride(const YamlValue& value);
  std::vector<KeyPart> ReadKey(const YamlValue& value);
  std::optional<KeyPart> ReadKeyPart(const YamlValue& value);
  std::vector<Condition> ReadMatch(const YamlValue& value);
  std::optional<Matcher> ReadMatcher(const YamlValue& value, size_t depth);
  std::optional<Matcher> ReadMatcherMapping(const YamlValue& value, size_t depth);
  std::vector<YamlValue> ReadList(const YamlValue& value, std::string_view what);

  const Reporter reporter_;
};

std::vector<YamlValue> NativeReader::ReadList(const YamlValue& value, std::string_view what) {
  if (value.is_sequence()) return value.children();
  reporter_.Error(value.line(), std::string(what) + " is a list, not " + Describe(value));
  return {};
}

Matcher PlainMatcher(const YamlValue& value) {
  Matcher matcher;
  matcher.text = value.text();
  matcher.line = value.line();
  matcher.kind = matcher.text.find('*') == std::string::npos ? MatcherKind::kExact : MatcherKind::kGlob;
  return matcher;
}

std::optional<Matcher> NativeReader::ReadMatcher(const YamlValue& value, size_t depth) {
  if (depth > kMaxMatcherDepth) {
    reporter_.Error(value.line(), "a matcher nested more than 8 deep");
    return std::nullopt;
  }
  switch (value.kind()) {
    case YamlKind::kScalar:
      return PlainMatcher(value);
    case YamlKind::kMapping:
      return ReadMatcherMapping(value, depth);
    case YamlKind::kNull:
      reporter_.Error(value.line(), "a matcher is missing (the empty text is written \"\")");
      return std::nullopt;
    case YamlKind::kSequence:
      break;
  }
  Matcher any{MatcherKind::kAny, "", {}, value.line()};
  for (const YamlValue& child : value.children()) {
    auto matcher = ReadMatcher(child, depth + 1);
    if (!matcher) return std::nullopt;
    any.children.push_back(std::move(*matcher));
  }
  if (any.children.empty()) {
    reporter_.Error(value.line(), "a match with an empty list holds for nobody");
    return std::nullopt;
  }
  return any;
}

std::optional<Matcher> NativeReader::ReadMatcherMapping(const YamlValue& value, size_t depth) {
  constexpr std::pair<std::string_view, MatcherKind> kKinds[] = {{"exact", MatcherKind::kExact},
                                                                 {"glob", MatcherKind::kGlob},
                                                                 {"regex", MatcherKind::kRegex},
                                                                 {"cidr", MatcherKind::kCidr}};
  OptionReader options(Section::kMatcher, value, reporter_);
  Matcher all{MatcherKind::kAll, "", {}, value.line()};
  for (const auto& [name, kind] : kKinds) {
    if (!options.Has(name)) continue;
    Matcher any{MatcherKind::kAny, "", {}, options.Line(name)};
    for (auto& [text, line] : options.Texts(name)) any.children.push_back({kind, text, {}, line});
    if (any.children.empty()) return std::nullopt;
    all.children.push_back(any.children.size() == 1 ? std::move(any.children[0]) : std::move(any));
  }
  if (const auto negated = options.Value("not")) {
    auto child = ReadMatcher(*negated, depth + 1);
    if (!child) return std::nullopt;
    all.children.push_back({MatcherKind::kNot, "", {}, negated->line()});
    all.children.back().children.push_back(std::move(*child));
  }
  if (!options.ok()) return std::nullopt;
  if (all.children.empty()) {
    reporter_.Error(value.line(), "a matcher is missing (one of exact, glob, regex, cidr, not)");
    return std::nullopt;
  }
  if (all.children.size() == 1) {
    Matcher only = std::move(all.children[0]);
    return only;
  }
  return all;
}

std::vector<Condition> NativeReader::ReadMatch(const YamlValue& value) {
  std::vector<Condition> out;
  for (const auto& [key, child] : ReadMapping(value, "match", reporter_)) {
    auto matcher = ReadMatcher(child, 1);
    if (matcher) out.push_back({std::string(key.text()), std::move(*matcher), key.line()});
  }
  return out;
}

std::optional<KeyPart> NativeReader::ReadKeyPart(const YamlValue& value) {
  KeyPart part;
  part.line = value.line();
  if (value.is_scalar()) {
    part.attribute = value.text();
    return part;
  }
  const auto entries = ReadMapping(value, "a key part is an attribute's name, or", reporter_);
  if (entries.empty()) return std::nullopt;
  if (entries.size() > 1) {
    reporter_.Error(value.line(), "a key part is one attribute; write [" +
                                      std::string(entries[0].first.text()) + ", " +
                                      std::string(entries[1].first.text()) + "] for two");
    return std::nullopt;
  }
  part.attribute = entries[0].first.text();
  part.address = true;
  OptionReader options(Section::kMask, entries[0].second, reporter_);
  const auto mask4 = options.Count("mask4");
  const auto mask6 = options.Count("mask6");
  if (!options.ok()) return std::nullopt;
  part.mask4 = static_cast<int>(*mask4);
  part.mask6 = static_cast<int>(*mask6);
  return part;
}

std::vector<KeyPart> NativeReader::ReadKey(const YamlValue& value) {
  std::vector<KeyPart> out;
  const bool alone = value.is_scalar() || value.is_mapping();
  for (const YamlValue& child : alone ? std::vector<YamlValue>{value} : ReadList(value, "key")) {
    auto part = ReadKeyPart(child);
    if (part) out.push_back(std::move(*part));
  }
  return out;
}

OverrideDefinition NativeReader::ReadOverride(const YamlValue& value) {
  const size_t errors_before = reporter_.diagnostics.total();
  OptionReader options(Section::kOverride, value, reporter_);
  OverrideDefinition out;
  out.line = value.line();
  if (const auto match = options.Value("match")) out.match = ReadMatch(*match);
  out.rate = options.ReadRate("rate");
  out.burst = options.Count("burst");
  out.permits = options.Count("permits");
  out.broken = reporter_.diagnostics.total() != errors_before;
  return out;
}

void NativeReader::ReadWindow(OptionReader& options, LimitDefinition& limit) {
  const auto algorithm = Lookup(kAlgorithms, options.Text("algorithm"));
  const auto calendar = Lookup(kCalendars, options.Text("calendar"));
  const auto from = options.Text("from");
  limit.algorithm = algorithm.value_or(core::Algorithm::kTokenBucket);
  const bool first_request = from == "first_request";
  if (calendar && options.Has("from")) {
    reporter_.Error(options.Line("from"), "calendar and from exclude each other");
    limit.broken = true;
  }
  if (calendar) limit.window = *calendar;
  if (first_request) limit.window = core::WindowKind::kFirstRequest;
  if ((calendar || options.Has("from")) && !options.Has("algorithm")) {
    limit.algorithm = core::Algorithm::kFixedWindow;
  }
  if (options.Has("from") && limit.algorithm != core::Algorithm::kFixedWindow) {
    reporter_.Error(options.Line("from"), "from goes with algorithm fixed_window only");
    limit.broken = true;
  }
  if (options.Has("timezone")) limit.timezone = options.Text("timezone").value_or("");
}

LimitDefinition NativeReader::ReadLimit(const YamlValue& value, std::string_view name) {
  const size_t errors_before = reporter_.diagnostics.total();
  OptionReader options(Section::kLimit, value, reporter_, name.empty() ? std::string_view() : "name");
  LimitDefinition limit;
  limit.line = value.line();
  limit.name = options.Text("name").value_or(std::string(name));
  if (const auto key = options.Value("key")) limit.key = ReadKey(*key);
  if (const auto match = options.Value("match")) limit.match = ReadMatch(*match);
  limit.rate = options.ReadRate("rate");
  limit.burst = options.Count("burst");
  limit.permits = options.Count("permits");
  if (options.Has("lease")) limit.lease = options.Duration("lease");
  limit.strict = options.Flag("strict").value_or(false);
  limit.replicas = options.Count("replicas").value_or(0);
  ReadWindow(options, limit);
  limit.unit = options.Text("unit").value_or("requests");
  limit.shadow = options.Flag("shadow").value_or(false);
  limit.on_failure = Lookup(kOnFailures, options.Text("on_failure"));
  if (const auto overrides = options.Value("overrides")) {
    for (const YamlValue& child : ReadList(*overrides, "overrides"))
      limit.overrides.push_back(ReadOverride(child));
  }
  limit.lines = {options.Line("name"),     options.Line("key"),      options.Line("rate"),
                 options.Line("burst"),    options.Line("permits"),  options.Line("lease"),
                 options.Line("calendar"), options.Line("timezone"), options.Line("strict"),
                 options.Line("replicas")};
  if (reporter_.diagnostics.total() != errors_before) limit.broken = true;
  return limit;
}

void NativeReader::ReadDomains(const YamlValue& value, PolicyFile& out) {
  for (const auto& [key, child] : ReadMapping(value, "domains", reporter_)) {
    DomainDefinition& domain = out.domains.emplace_back();
    domain.name = key.text();
    domain.file = out.file;
    domain.line = key.line();
    OptionReader options(Section::kDomain, child, reporter_);
    domain.shard_by = options.Text("shard_by").value_or("");
    domain.shard_by_line = options.Line("shard_by");
    const auto limits = options.Value("limits");
    if (!limits) continue;
    for (const YamlValue& limit : ReadList(*limits, "limits")) domain.limits.push_back(ReadLimit(limit));
  }
}

void NativeReader::ReadFile(const YamlValue& root, PolicyFile& out) {
  OptionReader options(Section::kFile, root, reporter_);
  out.revision = options.Count("revision").value_or(0);
  out.revision_line = options.Line("revision");
  out.engine = options.Value("engine");
  out.listen = options.Value("listen");
  if (const auto domains = options.Value("domains")) ReadDomains(*domains, out);
}

}  // namespace

FileShape DetectShape(const YamlValue& root) {
  if (root.is_mapping() && root.Find("descriptors") && root.Find("domain")) return FileShape::kEnvoy;
  if (root.is_sequence()) {
    const auto items = root.children();
    if (!items.empty() && items[0].Find("namespace")) return FileShape::kLimitador;
  }
  return FileShape::kNative;
}

namespace {

// `url: memory:` is how people write it, but to YAML the second colon begins a mapping. On a line of its own the colon
// is dropped (`memory` is taken too); no line or column moves.
std::string WithMemoryUrl(std::string_view text) {
  constexpr std::string_view kUrl = "url:";
  constexpr std::string_view kMemory = "memory:";
  std::string out(text);
  const auto skip_blanks = [&out](size_t at) {
    while (at < out.size() && out[at] == ' ') ++at;
    return at;
  };
  for (size_t line = 0; line < out.size();) {
    const size_t end = std::min(out.find('\n', line), out.size());
    const size_t url = skip_blanks(line);
    if (std::string_view(out).substr(url).starts_with(kUrl)) {
      const size_t value = skip_blanks(url + kUrl.size());
      const size_t behind = value + kMemory.size();
      const bool blank_before = value > url + kUrl.size();
      const bool ends = behind >= end || out[behind] == ' ' || out[behind] == '\r';
      if (blank_before && ends && std::string_view(out).substr(value).starts_with(kMemory))
        out[behind - 1] = ' ';
    }
    line = end + 1;
  }
  return out;
}

}  // namespace

std::optional<PolicyFile> ReadPolicyText(std::string_view text, std::string_view file,
                                         Diagnostics& diagnostics) {
  PolicyFile out;
  out.file = file;
  out.document = YamlDocument::Parse(WithMemoryUrl(text), file, diagnostics);
  if (out.document == nullptr) return std::nullopt;
  const YamlValue root = out.document->root();
  const Reporter reporter{out.file, diagnostics};
  // A file that is being written starts empty; it must not pass for a policy without limits.
  if (root.is_null()) {
    reporter.Error(0, "the file is empty");
    return std::nullopt;
  }
  switch (DetectShape(root)) {
    case FileShape::kNative:
      NativeReader(reporter).ReadFile(root, out);
      return out;
    case FileShape::kEnvoy:
      reporter.Error(root.line(), "this is a policy of envoyproxy/ratelimit, a shape that is not read yet");
      return std::nullopt;
    case FileShape::kLimitador:
      reporter.Error(root.line(), "this is a policy of limitador, a shape that is not read yet");
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<LimitDefinition> ReadLimitText(std::string_view text, std::string_view name,
                                             Diagnostics& diagnostics) {
  const std::unique_ptr<YamlDocument> document = YamlDocument::Parse(text, "", diagnostics);
  if (document == nullptr) return std::nullopt;
  const Reporter reporter{"", diagnostics};
  if (!document->root().is_mapping()) {
    reporter.Error(0, "a limit is a mapping, not " + Describe(document->root()));
    return std::nullopt;
  }
  return NativeReader(reporter).ReadLimit(document->root(), name);
}

std::unique_ptr<Policy> ReadPolicy(std::string_view text, std::string_view file, const BuildOptions& options,
                                   Diagnostics& diagnostics) {
  auto read = ReadPolicyText(text, file, diagnostics);
  if (!read) return nullptr;
  PolicyDefinition definition;
  definition.revision = read->revision;
  definition.domains = std::move(read->domains);
  auto policy = Policy::Build(definition, options, diagnostics);
  return diagnostics.ok() ? std::move(policy) : nullptr;
}

}  // namespace penstock::policy
