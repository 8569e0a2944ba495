#include "engine/memory/registry.h"

namespace penstock::engine {

void Registry::Register(std::vector<Claim> claims, RegisterDone done) {
  Result<std::vector<RegisteredLimit>> registered;
  {
    const MutexLock lock(mutex_);
    registered = book_.Register(claims, now_());
  }
  done(std::move(registered));
}

void Registry::Put(std::string domain, std::string name, std::string definition,
                   std::optional<core::Version> if_match, ChangeDone done) {
  Result<RegisteredLimit> put;
  {
    const MutexLock lock(mutex_);
    put = book_.Put(domain, name, definition, if_match, now_());
  }
  done(std::move(put));
}

void Registry::Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
                      ChangeDone done) {
  Result<RegisteredLimit> removed;
  {
    const MutexLock lock(mutex_);
    removed = book_.Remove(domain, name, if_match, now_());
  }
  done(std::move(removed));
}

void Registry::Changes(core::Version since, ChangesDone done) {
  RegistryChanges changes;
  {
    const MutexLock lock(mutex_);
    changes = book_.Changes(since);
  }
  done(std::move(changes));
}

std::vector<std::pair<std::string, RegistryBook::Entry>> Registry::Entries() const {
  const MutexLock lock(mutex_);
  return {book_.entries().begin(), book_.entries().end()};
}

bool Registry::Restore(std::string key, RegistryBook::Entry entry) {
  const MutexLock lock(mutex_);
  return book_.Restore(std::move(key), std::move(entry));
}

core::Version Registry::last() const {
  const MutexLock lock(mutex_);
  return book_.mark().last;
}

void Registry::RaiseLast(core::Version version) {
  const MutexLock lock(mutex_);
  book_.RaiseLast(version);
}

}  // namespace penstock::engine
