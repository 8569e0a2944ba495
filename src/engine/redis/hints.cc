#include "engine/redis/hints.h"

#include <algorithm>
#include <utility>

#include "engine/redis/count.h"

namespace penstock::engine::redis {

Hints::Listening::Listening(Hints& hints, HintKind kind, Executor& executor, Heard heard)
    : hints_(hints),
      kind_(kind),
      executor_(executor),
      heard_(std::make_shared<const Heard>(std::move(heard))) {
  MutexLock lock(hints_.mutex_);
  hints_.listenings_.push_back(this);
}

Hints::Listening::~Listening() {
  MutexLock lock(hints_.mutex_);
  std::erase(hints_.listenings_, this);
}

bool Hints::wanted() const {
  MutexLock lock(mutex_);
  return !listenings_.empty();
}

void Hints::Post(const Listening& listening, std::string_view what) const {
  listening.executor_.Post([heard = std::weak_ptr<const Heard>(listening.heard_), what = std::string(what)] {
    if (const std::shared_ptr<const Heard> there = heard.lock()) (*there)(what);
  });
}

void Hints::Tell(std::string_view message) {
  const size_t space = std::min(message.find(' '), message.size());
  const auto* const name = std::find(kHintNames.begin(), kHintNames.end(), message.substr(0, space));
  if (name == kHintNames.end()) {
    Count(stats_.unknown);
    return;
  }
  const auto kind = static_cast<size_t>(name - kHintNames.begin());
  Count(stats_.heard[kind]);
  message.remove_prefix(std::min(space + 1, message.size()));
  MutexLock lock(mutex_);
  for (const Listening* const listening : listenings_) {
    if (static_cast<size_t>(listening->kind_) == kind) Post(*listening, message);
  }
}

void Hints::TellMissed() {
  MutexLock lock(mutex_);
  for (const Listening* const listening : listenings_) Post(*listening, {});
}

}  // namespace penstock::engine::redis
