#include "engine/redis/registry.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "engine/redis/registry_call.h"
#include "engine/registry_book.h"

namespace penstock::engine::redis {
namespace {

constexpr size_t kHeadParts = 4;    // of `heads`, a limit
constexpr size_t kForceParts = 4;   // of what is in force, without the name
constexpr size_t kChangesHead = 5;  // ok, more, born, last, sum

int64_t Number(std::string_view text) { return ParseInt(text).value_or(0); }

std::string KeyOf(const Claim& claim) { return RegistryBook::Key(claim.domain, claim.name); }

// Of parts[at…]: version, revision, put, definition.
RegisteredLimit InForce(std::string_view key, std::span<const std::string_view> parts) {
  const size_t slash = std::min(key.find('/'), key.size());
  RegisteredLimit out;
  out.domain = key.substr(0, slash);
  out.name = slash == key.size() ? std::string_view() : key.substr(slash + 1);
  out.version = Number(parts[0]);
  out.revision = Number(parts[1]);
  out.put = parts[2] == "1";
  out.definition = parts[3];
  return out;
}

tl::unexpected<Error> Garbled() {
  return Fail(ErrorKind::kUnavailable, "the registry of limits answers what is not known to this version");
}

// Why the script did nothing; `ok` is none of these.
tl::unexpected<Error> Refusal(std::span<const std::string_view> parts) {
  if (parts[0] == "full") return RegistryFull();
  if (parts[0] == "not put") return NotPut();
  if (parts[0] == "version" && parts.size() == 2) return VersionRefused(Number(parts[1]));
  if (parts[0] == "revision" && parts.size() == 3) {
    const RegisteredLimit limit = InForce(parts[1], std::array<std::string_view, kForceParts>());
    return RevisionRefused(limit.domain, limit.name, Number(parts[2]));
  }
  return Garbled();
}

}  // namespace

// Claims on their way. What needs no writing and says what the claim says is answered from its head alone.
struct RedisRegistry::Registration {
  std::vector<Claim> claims;
  RegisterDone done;
  std::vector<RegisteredLimit> out;
  size_t looked = 0;          // heads are known of the claims before
  std::vector<size_t> write;  // claims that have to be sent
  std::vector<size_t> read;   // claims whose definition in force has to be fetched
  size_t written = 0;
  size_t fetched = 0;
};

struct RedisRegistry::Reading {
  core::Version since = 0;
  ChangesDone done;
  RegistryChanges out;
};

RedisRegistry::RedisRegistry(const RegistryParts& parts)
    : parts_(parts),
      limits_key_(std::string(parts.prefix) + "{registry}"),
      versions_key_(limits_key_ + ":versions"),
      hint_alarm_(parts.timer, [this] {
        next_hint_ = parts_.clock.Steady() + kHintPause;
        on_hint_();
      }) {}

RedisRegistry::~RedisRegistry() {
  Close();
  for (std::unique_ptr<Call>& call : calls_) {
    call->Orphan();
    (void)call.release();  // destroys itself when its link lets go of it
  }
}

void RedisRegistry::Close() {
  closed_ = true;
  listening_.reset();
  hint_alarm_.Cancel();
  std::erase_if(calls_, [](const std::unique_ptr<Call>& call) { return !call->Silence(); });
}

void RedisRegistry::Forget(const Call& call) {
  std::erase_if(calls_, [&call](const std::unique_ptr<Call>& other) { return other.get() == &call; });
}

void RedisRegistry::Ask(std::vector<std::string> arguments, Answer answer) {
  if (closed_ || calls_.size() >= kMaxCalls)
    return answer(Fail(ErrorKind::kUnavailable, "the registry of limits: too much is asked of it at once"));
  calls_.push_back(std::make_unique<Call>(*this, std::move(arguments), std::move(answer)));
  calls_.back()->Start();
}

// Registering: heads of all, then what has to be written, then what has to be read.

void RedisRegistry::Register(std::vector<Claim> claims, RegisterDone done) {
  auto registration = std::make_shared<Registration>();
  registration->claims = std::move(claims);
  registration->done = std::move(done);
  registration->out.resize(registration->claims.size());
  LookAt(registration);
}

void RedisRegistry::LookAt(const std::shared_ptr<Registration>& registration) {
  const std::vector<Claim>& claims = registration->claims;
  if (registration->looked == claims.size()) return WriteNext(registration);
  std::vector<std::string> arguments = {"heads"};
  const size_t end = std::min(registration->looked + kMaxNames, claims.size());
  for (size_t i = registration->looked; i < end; ++i) arguments.push_back(KeyOf(claims[i]));
  Ask(std::move(arguments), [this, registration](const Result<Parts>& parts) {
    if (!parts) return registration->done(tl::unexpected<Error>(parts.error()));
    Judge(registration, *parts);
  });
}

void RedisRegistry::Judge(const std::shared_ptr<Registration>& registration, const Parts& heads) {
  const size_t first = registration->looked;
  const size_t count = std::min(kMaxNames, registration->claims.size() - first);
  if (heads[0] != "ok" || heads.size() != 1 + count * kHeadParts) return registration->done(Garbled());
  for (size_t i = 0; i < count; ++i) {
    const Claim& claim = registration->claims[first + i];
    const std::string_view* const head = &heads[1 + i * kHeadParts];
    const core::Version version = Number(head[0]);
    const int64_t revision = Number(head[1]);
    const bool same = !head[2].empty() && head[2] == Sha1(claim.definition);
    const bool put = head[3] == "1";
    const bool follows = !head[2].empty() && !same && claim.revision < revision;
    if (claim.held == 0 && !head[2].empty() && !same && claim.revision > 0 && claim.revision == revision)
      return registration->done(RevisionRefused(claim.domain, claim.name, claim.revision));
    const bool settled =
        claim.held == 0 ? follows || (same && claim.revision <= revision) : claim.held <= version;
    if (!settled || (claim.above > 0 && version <= claim.above)) {
      registration->write.push_back(first + i);
    } else if (same && !put) {
      registration->out[first + i] = {claim.domain, claim.name, version, false, revision, claim.definition};
    } else {
      registration->read.push_back(first + i);
    }
  }
  registration->looked += count;
  LookAt(registration);
}

void RedisRegistry::WriteNext(const std::shared_ptr<Registration>& registration) {
  const std::vector<size_t>& write = registration->write;
  if (registration->written == write.size()) return ReadNext(registration);
  std::vector<std::string> arguments = {"claim"};
  size_t bytes = 0;
  size_t end = registration->written;
  while (end < write.size() && end - registration->written < kMaxNames && bytes < kMaxBytes) {
    const Claim& claim = registration->claims[write[end++]];
    bytes += claim.definition.size();
    for (std::string part :
         {KeyOf(claim), claim.definition, std::to_string(claim.revision), std::string(claim.put ? "1" : "0"),
          std::to_string(claim.held), std::to_string(claim.above)}) {
      arguments.push_back(std::move(part));
    }
  }
  Ask(std::move(arguments), [this, registration, end](const Result<Parts>& parts) {
    if (!parts) return registration->done(tl::unexpected<Error>(parts.error()));
    if ((*parts)[0] != "ok") return registration->done(Refusal(*parts));
    const size_t count = end - registration->written;
    if (parts->size() != 1 + count * kForceParts) return registration->done(Garbled());
    for (size_t i = 0; i < count; ++i) {
      const size_t claim = registration->write[registration->written + i];
      registration->out[claim] =
          InForce(KeyOf(registration->claims[claim]), std::span(*parts).subspan(1 + i * kForceParts));
    }
    registration->written = end;
    WriteNext(registration);
  });
}

void RedisRegistry::ReadNext(const std::shared_ptr<Registration>& registration) {
  const std::vector<size_t>& read = registration->read;
  if (registration->fetched == read.size()) return registration->done(std::move(registration->out));
  std::vector<std::string> arguments = {"get"};
  const size_t end = std::min(registration->fetched + kMaxNames, read.size());
  for (size_t i = registration->fetched; i < end; ++i)
    arguments.push_back(KeyOf(registration->claims[read[i]]));
  Ask(std::move(arguments), [this, registration, end](const Result<Parts>& parts) {
    if (!parts) return registration->done(tl::unexpected<Error>(parts.error()));
    const size_t count = end - registration->fetched;
    if ((*parts)[0] != "ok" || parts->size() != 1 + count * kForceParts) return registration->done(Garbled());
    for (size_t i = 0; i < count; ++i) {
      const size_t claim = registration->read[registration->fetched + i];
      registration->out[claim] =
          InForce(KeyOf(registration->claims[claim]), std::span(*parts).subspan(1 + i * kForceParts));
    }
    registration->fetched = end;
    ReadNext(registration);
  });
}

// Run-time changes.

void RedisRegistry::Put(std::string domain, std::string name, std::string definition,
                        std::optional<core::Version> if_match, ChangeDone done) {
  const std::string key = RegistryBook::Key(domain, name);
  Ask({"put", key, std::move(definition), if_match ? std::to_string(*if_match) : std::string()},
      [key, done = std::move(done)](const Result<Parts>& parts) {
        if (!parts) return done(tl::unexpected<Error>(parts.error()));
        if ((*parts)[0] != "ok") return done(Refusal(*parts));
        if (parts->size() != 1 + kForceParts) return done(Garbled());
        done(InForce(key, std::span(*parts).subspan(1)));
      });
}

void RedisRegistry::Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
                           ChangeDone done) {
  const std::string key = RegistryBook::Key(domain, name);
  Ask({"remove", key, if_match ? std::to_string(*if_match) : std::string()},
      [key, done = std::move(done)](const Result<Parts>& parts) {
        if (!parts) return done(tl::unexpected<Error>(parts.error()));
        if ((*parts)[0] != "ok") return done(Refusal(*parts));
        if (parts->size() != 1 + kForceParts) return done(Garbled());
        done(InForce(key, std::span(*parts).subspan(1)));
      });
}

// In the order of versions, so that what changes while it is read comes again at the end, and the last answer's mark
// has all of it.

void RedisRegistry::Changes(core::Version since, ChangesDone done) {
  auto reading = std::make_shared<Reading>();
  reading->since = since;
  reading->done = std::move(done);
  ReadOn(reading);
}

void RedisRegistry::ReadOn(const std::shared_ptr<Reading>& reading) {
  Ask({"changes", std::to_string(reading->since), std::to_string(kMaxNames), std::to_string(kMaxBytes)},
      [this, reading](const Result<Parts>& parts) {
        if (!parts) return reading->done(tl::unexpected<Error>(parts.error()));
        const std::span<const std::string_view> all(*parts);
        if (all[0] != "ok" || all.size() < kChangesHead ||
            (all.size() - kChangesHead) % (1 + kForceParts) != 0) {
          return reading->done(Garbled());
        }
        const core::Version before = reading->since;
        for (size_t at = kChangesHead; at < all.size(); at += 1 + kForceParts) {
          reading->out.limits.push_back(InForce(all[at], all.subspan(at + 1)));
          reading->since = std::max(reading->since, reading->out.limits.back().version);
        }
        reading->out.mark = {Number(all[2]), Number(all[3]), Number(all[4])};
        const bool more = all[1] == "1" && all.size() > kChangesHead;
        // The two keys were not written together if the versions stand still: nobody may ask for ever.
        if (more && reading->since <= before) return reading->done(Garbled());
        if (more) return ReadOn(reading);
        reading->done(std::move(reading->out));
      });
}

void RedisRegistry::OnHint(const std::function<void()>& heard) {
  on_hint_ = heard;
  if (closed_ || parts_.hints == nullptr || listening_ != nullptr) return;
  listening_ = parts_.hints->Listen(HintKind::kLimits, *parts_.executor, [this](std::string_view) {
    hint_alarm_.SetBy(std::max(parts_.clock.Steady(), next_hint_));
  });
}

}  // namespace penstock::engine::redis
