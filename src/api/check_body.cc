#include "api/check_body.h"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "api/ad_hoc_limit.h"
#include "base/bytes.h"

namespace penstock::api {
namespace json = boost::json;
namespace {

constexpr size_t kMaxDepth = 8;
constexpr size_t kDocumentBytes = 8 * 1024;  // of a document that needs no allocation
constexpr size_t kParserBytes = 1'024;
constexpr size_t kMaxDurationBytes = 64;
constexpr size_t kMaxIdBytes = 4'096;  // of a permit; ours are shorter, and others are unknown

std::string_view View(const json::string& s) { return {s.data(), s.size()}; }
std::string_view View(json::string_view s) { return {s.data(), s.size()}; }

// What a reader fills: a request and the arrays its spans point to.
struct Target {
  service::Request request;
  std::vector<Attribute> attributes;
  std::vector<UnitCost> costs;
  bool has_cost = false;
  bool has_key = false;
  bool has_domain = false;
  AdHocText ad_hoc;
  bool has_rate = false;  // or permits
  PermitWords permit;

  void Clear() {
    request = {};
    attributes.clear();
    costs.clear();
    has_cost = has_key = has_domain = has_rate = false;
    ad_hoc = {};
    permit = {};
  }
};

tl::unexpected<Error> Wrong(std::string_view field, std::string_view what) {
  return Invalid(std::string(field) + ": " + std::string(what));
}

Result<std::string_view> ReadString(std::string_view field, const json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return Wrong(field, "must be a string");
  return View(*text);
}

// A text that may not be empty.
Result<std::string_view> ReadName(std::string_view field, const json::value& value, size_t most) {
  Result<std::string_view> text = ReadString(field, value);
  if (text && (text->empty() || text->size() > most)) {
    return Wrong(field, "must be 1 to " + std::to_string(most) + " bytes");
  }
  return text;
}

Result<int64_t> ReadInteger(std::string_view field, const json::value& value) {
  if (const int64_t* number = value.if_int64()) return *number;
  if (value.is_uint64()) return Wrong(field, "is out of range");
  return Wrong(field, "must be a whole number");
}

Result<bool> ReadBool(std::string_view field, const json::value& value) {
  const bool* flag = value.if_bool();
  if (flag == nullptr) return Wrong(field, "must be true or false");
  return *flag;
}

Result<std::chrono::milliseconds> ReadMillis(std::string_view field, const json::value& value, int64_t least,
                                             int64_t most) {
  const Result<int64_t> number = ReadInteger(field, value);
  if (!number) return tl::unexpected(number.error());
  if (*number < least || *number > most) {
    return Wrong(field, "must be from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return std::chrono::milliseconds(*number);
}

// Stores a read value or passes its error on.
template <class T, class U>
Result<void> Store(Result<T> value, U& into) {
  if (!value) return tl::unexpected(std::move(value.error()));
  into = static_cast<U>(*value);
  return {};
}

struct Field {
  std::string_view name;
  Result<void> (*read)(const json::value& value, Target& target);
};

Result<void> ReadMembers(const json::object& object, std::span<const Field> fields, std::string_view where,
                         Target& target) {
  for (const json::key_value_pair& member : object) {
    const std::string_view name = View(member.key());
    const Field* found = nullptr;
    for (const Field& field : fields) {
      if (field.name == name) {
        found = &field;
        break;
      }
    }
    if (found == nullptr) {
      std::vector<std::string_view> names;
      for (const Field& field : fields) names.push_back(field.name);
      std::string message = "unknown field \"" + std::string(name.substr(0, 64)) + "\"" + std::string(where);
      const std::string_view nearest = Nearest(name, names.data(), names.size());
      if (!nearest.empty()) message += ", did you mean \"" + std::string(nearest) + "\"";
      return Invalid(std::move(message));
    }
    if (Result<void> read = found->read(member.value(), target); !read) return read;
  }
  return {};
}

Result<void> ReadAttributes(const json::value& value, Target& target) {
  const json::object* object = value.if_object();
  if (object == nullptr) return Wrong("attributes", "must be an object of strings");
  if (object->size() > kMaxAttributesPerRequest) {
    return Wrong("attributes", "at most " + std::to_string(kMaxAttributesPerRequest) + " are taken");
  }
  for (const json::key_value_pair& member : *object) {
    const json::string* text = member.value().if_string();
    if (text == nullptr) return Wrong("attributes." + std::string(View(member.key())), "must be a string");
    target.attributes.push_back({View(member.key()), View(*text)});
  }
  return {};
}

Result<void> ReadCosts(const json::value& value, Target& target) {
  const json::object* object = value.if_object();
  if (object == nullptr) return Wrong("costs", "must be an object of unit and whole number");
  if (object->empty()) return Wrong("costs", "names no unit");
  if (object->size() > kMaxUnitsPerRequest) {
    return Wrong("costs", "at most " + std::to_string(kMaxUnitsPerRequest) + " units are taken");
  }
  for (const json::key_value_pair& member : *object) {
    const Result<int64_t> cost = ReadInteger("costs." + std::string(View(member.key())), member.value());
    if (!cost) return tl::unexpected(cost.error());
    target.costs.push_back({View(member.key()), *cost});
  }
  return {};
}

constexpr Field kLimitFields[] = {
    {"rate",
     [](const json::value& v, Target& t) {
       t.has_rate = true;
       return Store(ReadString("limit.rate", v), t.ad_hoc.rate);
     }},
    {"burst", [](const json::value& v,
                 Target& t) { return Store(ReadInteger("limit.burst", v), t.ad_hoc.burst.emplace()); }},
    {"algorithm", [](const json::value& v,
                     Target& t) { return Store(ReadString("limit.algorithm", v), t.ad_hoc.algorithm); }},
    {"from",
     [](const json::value& v, Target& t) { return Store(ReadString("limit.from", v), t.ad_hoc.from); }},
    {"permits",
     [](const json::value& v, Target& t) {
       t.has_rate = true;
       return Store(ReadInteger("limit.permits", v), t.ad_hoc.permits.emplace());
     }},
    {"lease", [](const json::value& v,
                 Target& t) { return Store(ReadName("limit.lease", v, kMaxDurationBytes), t.ad_hoc.lease); }},
};

Result<void> ReadLimit(const json::value& value, Target& target) {
  const json::object* object = value.if_object();
  if (object == nullptr) return Wrong("limit", "must be an object");
  return ReadMembers(*object, kLimitFields, " in limit", target);
}

constexpr Field kFields[] = {
    {"domain",
     [](const json::value& v, Target& t) {
       t.has_domain = true;
       return Store(ReadString("domain", v), t.request.domain);
     }},
    {"attributes", ReadAttributes},
    {"cost",
     [](const json::value& v, Target& t) {
       t.has_cost = true;
       return Store(ReadInteger("cost", v), t.request.options.cost);
     }},
    {"costs", ReadCosts},
    {"weight", [](const json::value& v,
                  Target& t) { return Store(ReadInteger("weight", v), t.request.options.weight); }},
    {"max_wait_ms",
     [](const json::value& v, Target& t) {
       return Store(ReadMillis("max_wait_ms", v, 0, kMaxWaitMs), t.request.options.max_wait);
     }},
    {"force",
     [](const json::value& v, Target& t) { return Store(ReadBool("force", v), t.request.options.force); }},
    {"partial", [](const json::value& v,
                   Target& t) { return Store(ReadBool("partial", v), t.request.options.partial); }},
    {"request_id",
     [](const json::value& v, Target& t) -> Result<void> {
       return Store(ReadName("request_id", v, kMaxRequestIdBytes), t.request.options.request_id);
     }},
    {"holder",
     [](const json::value& v, Target& t) {
       return Store(ReadName("holder", v, kMaxHolderBytes), t.request.options.holder);
     }},
    {"lease_ms",
     [](const json::value& v, Target& t) {
       return Store(ReadMillis("lease_ms", v, kMinLeaseMs, kMaxLeaseMs), t.request.options.lease);
     }},
    {"settle_within_ms",
     [](const json::value& v, Target& t) {
       return Store(ReadMillis("settle_within_ms", v, 0, kMaxSettleWithinMs),
                    t.request.options.settle_within);
     }},
    {"key",
     [](const json::value& v, Target& t) {
       t.has_key = true;
       return Store(ReadString("key", v), t.request.ad_hoc_key);
     }},
    {"limit", ReadLimit},
};

Result<void> ReadPermitId(const json::value& v, Target& t) {
  return Store(ReadName("id", v, kMaxIdBytes), t.permit.id);
}

constexpr Field kReleaseFields[] = {{"id", ReadPermitId}};

constexpr Field kRenewFields[] = {
    {"id", ReadPermitId},
    {"lease_ms",
     [](const json::value& v, Target& t) {
       return Store(ReadMillis("lease_ms", v, kMinLeaseMs, kMaxLeaseMs), t.permit.lease);
     }},
};

// What no single field can say: a check names a domain, or a key with a limit; one kind of cost.
Result<service::Request> Finish(Target& target) {
  if (target.has_key == target.has_domain) {
    return Invalid("a check needs either \"domain\" (a policy's) or \"key\" with \"limit\" (ad hoc)");
  }
  if (target.has_cost && !target.costs.empty()) return Invalid("\"cost\" and \"costs\" exclude each other");
  if (target.has_key) {
    if (!target.has_rate) return Invalid("limit.rate: is missing, and so is limit.permits");
    Result<core::RateSpec> spec = ReadAdHocLimit(target.ad_hoc);
    if (!spec) return tl::unexpected(std::move(spec.error()));
    target.request.ad_hoc = *spec;
    if (!target.attributes.empty()) return Invalid("\"attributes\" belong to a domain, not to a key");
  } else if (target.has_rate) {
    return Invalid("\"limit\" belongs to a key, not to a domain");
  }
  target.request.attributes = target.attributes;
  target.request.options.costs = target.costs;
  return target.request;
}

}  // namespace

struct CheckBody::Document {
  alignas(std::max_align_t) unsigned char document_bytes[kDocumentBytes];
  unsigned char parser_bytes[kParserBytes];
  std::optional<json::monotonic_resource> memory;
  std::optional<json::value> root;
  Target target;

  const json::value& At(size_t index) const { return root->is_array() ? root->get_array()[index] : *root; }

  Result<void> ReadAt(size_t index, std::span<const Field> fields, std::string_view what) {
    target.Clear();
    const json::object* object = At(index).if_object();
    if (object == nullptr) return Invalid(std::string(what) + " must be a JSON object");
    return ReadMembers(*object, fields, "", target);
  }
};

CheckBody::CheckBody() : document_(std::make_unique<Document>()) {}
CheckBody::~CheckBody() = default;

Result<void> CheckBody::Parse(std::string_view body) {
  Document& d = *document_;
  d.root.reset();
  d.memory.emplace(d.document_bytes, sizeof d.document_bytes);
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::parser parser(json::storage_ptr(), options, d.parser_bytes, sizeof d.parser_bytes);
  parser.reset(json::storage_ptr(&*d.memory));
  json::error_code error;
  const size_t parsed = parser.write(body.data(), body.size(), error);
  if (error) {
    return Invalid("the body is not valid JSON at byte " + std::to_string(parsed) + ": " + error.message());
  }
  d.root.emplace(parser.release());
  if (const json::array* array = d.root->if_array()) {
    if (array->empty()) return Invalid("the array is empty");
    if (array->size() > kMaxChecksPerRequest) {
      return Fail(ErrorKind::kTooLarge,
                  "an array of at most " + std::to_string(kMaxChecksPerRequest) + " is taken");
    }
  } else if (!d.root->is_object()) {
    return Invalid("the body must be a JSON object or an array of them");
  }
  return {};
}

bool CheckBody::is_array() const { return document_->root->is_array(); }

size_t CheckBody::size() const { return is_array() ? document_->root->get_array().size() : 1; }

Result<service::Request> CheckBody::ReadCheck(size_t index) {
  Result<void> read = document_->ReadAt(index, kFields, "a check");
  if (!read) return tl::unexpected(std::move(read.error()));
  return Finish(document_->target);
}

Result<service::Request> CheckBody::ReadSettle() {
  if (is_array()) return Invalid("one settlement a request");
  Result<void> read = document_->ReadAt(0, kFields, "a settlement");
  if (!read) return tl::unexpected(std::move(read.error()));
  Target& target = document_->target;
  if (target.request.options.request_id.empty()) return Invalid("request_id: is missing");
  if (target.costs.empty() && !target.has_cost) return Invalid("costs: is missing");
  Result<service::Request> request = Finish(target);
  if (!request) return request;
  if (target.costs.empty()) {  // settled as it may have been checked: by "cost", which is the unit "requests"
    target.costs.push_back({UnitCost{}.unit, request->options.cost});
    request->options.costs = target.costs;
  }
  request->mode = engine::Mode::kSettle;
  return request;
}

Result<PermitWords> CheckBody::ReadPermit(size_t index, PermitVerb verb) {
  Result<void> read = verb == PermitVerb::kRenew ? document_->ReadAt(index, kRenewFields, "a renewal")
                                                 : document_->ReadAt(index, kReleaseFields, "a release");
  if (!read) return tl::unexpected(std::move(read.error()));
  if (document_->target.permit.id.empty()) return Invalid("id: is missing");
  return document_->target.permit;
}

}  // namespace penstock::api
