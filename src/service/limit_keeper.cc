#include "service/limit_keeper.h"

#include <utility>

#include "base/log.h"
#include "engine/registry_book.h"
#include "policy/definition_text.h"

namespace penstock::service {

using engine::RegisteredLimit;
using engine::RegistryChanges;

void LimitKeeper::Start(Step job) {
  if (std::exchange(busy_, true)) {
    waiting_.push_back(std::move(job));
    return;
  }
  job();
}

// A job that is done inline runs inside the one before it: kMaxWaiting bounds how deep.
void LimitKeeper::Next() {
  if (waiting_.empty()) {
    busy_ = false;
    return;
  }
  const Step job = std::move(waiting_.front());
  waiting_.pop_front();
  job();
}

void LimitKeeper::Heavy(Step work, Step after) {
  if (parts_.heavy == nullptr) {
    work();
    return after();
  }
  parts_.heavy->Post([this, work = std::move(work), after = std::move(after)] {
    work();
    parts_.home->Post(after);
  });
}

void LimitKeeper::Apply(const std::vector<RegisteredLimit>& limits) {
  for (const RegisteredLimit& limit : limits) dirty_ |= overlay_.Apply(limit);
}

// Files.

void LimitKeeper::Load(std::shared_ptr<const policy::PolicyDefinition> file,
                       std::shared_ptr<policy::Policy> compiled, Done done) {
  Start([this, file = std::move(file), compiled = std::move(compiled), done = std::move(done)] {
    LoadNow(file, compiled, [this, done](Result<void> result) {
      done(std::move(result));
      Next();
    });
  });
}

void LimitKeeper::LoadNow(std::shared_ptr<const policy::PolicyDefinition> file,
                          std::shared_ptr<policy::Policy> compiled, Done done) {
  auto made = std::make_shared<Result<std::shared_ptr<const FileLimits>>>();
  Heavy([made, file = std::move(file)] { *made = FileLimits::Make(file); },
        [this, made, compiled = std::move(compiled), done = std::move(done)] {
          if (!*made) return done(tl::unexpected<Error>(made->error()));
          owed_ = Loading{**made, compiled};
          const auto load = [this, done](const Result<void>& looked) {
            if (looked) return RegisterFile(*std::exchange(owed_, std::nullopt), done);
            if (overlay_.file() != nullptr) return done(looked);
            // Without an engine the first file is better than none: its limits say what to do then.
            overlay_.SetFile(owed_->file);
            compiled_ = nullptr;
            Publish([done, looked](const Result<void>& published) { done(published ? looked : published); });
          };
          if (looked_) return load({});
          Look(true, load);
        });
}

void LimitKeeper::RegisterFile(const Loading& loading, const Done& done) {
  LimitOverlay loads;
  loads.SetFile(loading.file);
  parts_.session.registry().Register(loads.Loads(true), [this, loading, done](Registered registered) {
    if (!registered) {
      if (registered.error().kind == ErrorKind::kUnavailable) owed_ = loading;
      if (owed_ && overlay_.file() == nullptr) {
        overlay_.SetFile(loading.file);
        return Publish([done, error = registered.error()](Result<void> published) {
          done(published ? Result<void>(tl::unexpected<Error>(error)) : std::move(published));
        });
      }
      return done(tl::unexpected<Error>(registered.error()));
    }
    const std::shared_ptr<const FileLimits> before = overlay_.file();
    overlay_.SetFile(loading.file);
    Apply(*registered);
    compiled_ = loading.compiled;
    Publish([this, before, done](Result<void> published) {
      if (!published) overlay_.SetFile(before);
      done(std::move(published));
    });
  });
}

// Publishing.

void LimitKeeper::Publish(Done done) {
  auto built = std::make_shared<Result<LimitOverlay::Built>>();
  Heavy([this, built] { *built = overlay_.Build(build_, std::exchange(compiled_, nullptr)); },
        [this, built, done = std::move(done)] {
          if (!*built) return done(tl::unexpected<Error>(built->error()));
          for (const auto& [key, why] : (*built)->unusable) {
            if (told_.contains(key)) continue;
            std::string text = "the limit ";
            text += key;
            text += " as the registry has it cannot be used by this node: ";
            Log(LogLevel::kError, text + why);
          }
          told_ = std::move((*built)->unusable);
          Result<void> published =
              parts_.store.Publish(std::move((*built)->policy), std::move((*built)->sources), parts_.session);
          if (published) dirty_ = false;
          done(std::move(published));
        });
}

void LimitKeeper::Settle(Done done) {
  if (!dirty_ || owed_) return done({});  // a file that is on its way is published with it
  Publish(std::move(done));
}

// Run-time changes.

void LimitKeeper::Put(std::string domain, std::string name, std::string body,
                      std::optional<core::Version> if_match, ChangeDone done) {
  if (waiting_.size() >= kMaxWaiting) {
    return done(Fail(ErrorKind::kUnavailable, "too many changes of limits at once"));
  }
  Start([this, domain = std::move(domain), name = std::move(name), body = std::move(body), if_match,
         done = std::move(done)] {
    auto read = std::make_shared<Result<policy::LimitDefinition>>();
    Heavy([this, read, domain, name, body] { *read = policy::ReadDefinition(body, domain, name, build_); },
          [this, read, domain, name, if_match, done] {
            if (!*read) return FinishChange(tl::unexpected<Error>(read->error()), done);
            parts_.session.registry().Put(
                domain, name, policy::DefinitionText(**read), if_match,
                [this, done](Result<RegisteredLimit> put) { FinishChange(std::move(put), done); });
          });
  });
}

void LimitKeeper::Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
                         ChangeDone done) {
  if (waiting_.size() >= kMaxWaiting) {
    return done(Fail(ErrorKind::kUnavailable, "too many changes of limits at once"));
  }
  Start([this, domain = std::move(domain), name = std::move(name), if_match, done = std::move(done)] {
    parts_.session.registry().Remove(domain, name, if_match, [this, done](Result<RegisteredLimit> removed) {
      if (!removed) return FinishChange(std::move(removed), done);
      dirty_ |= overlay_.Apply(*removed);
      // What the registry has of an earlier file is not this node's: its own file speaks again.
      auto in_force = std::make_shared<RegisteredLimit>(*std::move(removed));
      const std::string key = engine::RegistryBook::Key(in_force->domain, in_force->name);
      Reclaim(overlay_.Loads(false), [this, in_force, key, done](Result<void> settled) {
        if (!settled) return FinishChange(tl::unexpected<Error>(settled.error()), done);
        const LimitOverlay::Known* const known = overlay_.Find(key);
        const bool own = overlay_.file() != nullptr && overlay_.file()->Text(key) != nullptr;
        in_force->version = known->version;
        in_force->revision = known->revision;
        in_force->definition = own ? *known->definition : std::string();
        FinishChange(std::move(*in_force), done);
      });
    });
  });
}

void LimitKeeper::FinishChange(Result<RegisteredLimit> changed, const ChangeDone& done) {
  if (!changed) {
    done(std::move(changed));
    return Next();
  }
  if (changed->put) dirty_ |= overlay_.Apply(*changed);
  auto limit = std::make_shared<RegisteredLimit>(*std::move(changed));
  Settle([this, limit, done](Result<void> settled) {
    if (settled) {
      done(std::move(*limit));
    } else {
      done(tl::unexpected<Error>(settled.error()));
    }
    Next();
  });
}

// Following the registry.

void LimitKeeper::Poll(Done done) {
  if (std::exchange(poll_waits_, true)) {
    if (done) done({});
    return;
  }
  Start([this, done = std::move(done)] {
    poll_waits_ = false;
    PollNow([this, done](Result<void> result) {
      if (done) done(std::move(result));
      Next();
    });
  });
}

void LimitKeeper::Follow(Timer& timer, Micros pause) {
  timer_ = &timer;
  parts_.session.registry().OnHint([this] { Poll(); });
  PollAndAgain(pause);
}

void LimitKeeper::PollAndAgain(Micros pause) {
  Poll();
  next_poll_ = timer_->Schedule(parts_.clock.Steady() + pause, [this, pause] { PollAndAgain(pause); });
}

void LimitKeeper::PollNow(Done done) {
  Look(false, [this, done = std::move(done)](Result<void> looked) {
    if (!looked) return done(std::move(looked));
    if (!owed_) return done({});
    RegisterFile(*std::exchange(owed_, std::nullopt), [done](Result<void> registered) {
      Log(registered ? LogLevel::kInfo : LogLevel::kError,
          registered ? std::string("the policy file is registered now")
                     : "the policy file is not registered: " + registered.error().message);
      done(std::move(registered));
    });
  });
}

void LimitKeeper::Look(bool all, Done done) {
  parts_.session.registry().Changes(
      all ? 0 : mark_.last, [this, all, done = std::move(done)](const Result<RegistryChanges>& changes) {
        if (!changes) return done(tl::unexpected<Error>(changes.error()));
        Changed(*changes, all, done);
      });
}

void LimitKeeper::Changed(const RegistryChanges& changes, bool all, Done done) {
  looked_ = true;
  std::vector<engine::Claim> claims;
  if (all) claims = overlay_.Lost(changes.limits);
  for (const RegisteredLimit& limit : changes.limits) {
    const LimitOverlay::Known* const known =
        all ? overlay_.Find(engine::RegistryBook::Key(limit.domain, limit.name)) : nullptr;
    if (known == nullptr || known->version <= limit.version) dirty_ |= overlay_.Apply(limit);
  }
  const engine::RegistryMark before = std::exchange(mark_, changes.mark);
  const bool another = before.born != 0 && mark_.born != before.born;
  if (!all && (another || mark_.last < before.last || mark_.sum != overlay_.sum())) {
    return Look(true, std::move(done));
  }
  claims_owed_ |= all || !changes.limits.empty();
  if (!changes.limits.empty()) seen_.clear();  // most likely it was this that was met
  for (std::vector<engine::Claim> more :
       {claims_owed_ ? overlay_.Loads(false) : std::vector<engine::Claim>(), Forgotten()}) {
    for (engine::Claim& claim : more) claims.push_back(std::move(claim));
  }
  Reclaim(std::move(claims), std::move(done));
}

void LimitKeeper::Reclaim(std::vector<engine::Claim> claims, Done done) {
  claims_owed_ = false;
  if (claims.empty()) return Settle(std::move(done));
  parts_.session.registry().Register(std::move(claims),
                                     [this, done = std::move(done)](Registered registered) {
                                       if (registered) Apply(*registered);
                                       claims_owed_ = !registered;
                                       Settle([done, registered](Result<void> settled) {
                                         if (registered) return done(std::move(settled));
                                         done(tl::unexpected<Error>(registered.error()));
                                       });
                                     });
}

std::vector<engine::Claim> LimitKeeper::Forgotten() {
  const SteadyTime now = parts_.clock.Steady();
  PolicyStore::StaleVersions due;
  for (const auto& [key, version] : parts_.store.TakeStale()) {
    Seen& seen = seen_.try_emplace(key, Seen{version, now, now}).first->second;
    seen.version = std::max(seen.version, version);
    seen.last = now;
    if (now - seen.since >= kForgotten) due.emplace(key, seen.version);
  }
  std::erase_if(seen_, [&](const auto& entry) {
    return due.contains(entry.first) || now - entry.second.last >= kForgotten;
  });
  return overlay_.Above(due);
}

}  // namespace penstock::service
