#include "check_embedded.h"

#include <memory>
#include <utility>
#include <vector>

#include "api/decision_json.h"
#include "base/clock.h"
#include "config/source.h"
#include "engine/memory/memory_engine.h"
#include "server/server.h"
#include "service/decider_impl.h"
#include "service/metrics.h"
#include "service/policy_store.h"

namespace penstock::app {
namespace {

class NoExecutor final : public Executor {
 public:
  void Post(std::function<void()>) override {}
};

class OneAnswer final : public service::Receiver {
 public:
  void Decided(uint64_t, const Result<const Decision*>& decision) noexcept override {
    if (decision) {
      api::AppendDecision(text, **decision);
    } else {
      error = decision.error();
    }
  }
  std::string text;
  std::optional<Error> error;
};

}  // namespace

Result<std::string> CheckEmbedded(const CheckFlags& flags) {
  const SystemClock clock;
  engine::MemoryEngine engine(engine::MemoryOptions{.max_keys = 1'000}, clock);
  policy::Diagnostics diagnostics;
  const std::unique_ptr<config::Loaded> loaded =
      config::LoadPath(flags.policy, server::WhatMemoryHolds(), diagnostics);
  if (!loaded) return Invalid(diagnostics.Text());

  service::Metrics metrics;
  service::PolicyStore store(metrics);
  NoExecutor executor;
  const std::unique_ptr<engine::EngineSession> session = engine.OpenSession();
  Result<void> published;
  store.Publish(loaded->policy, *session, [&published](Result<void> done) { published = std::move(done); });
  if (!published) return tl::unexpected(published.error());

  service::DeciderImpl decider(engine, *session, executor, clock, store, metrics.AddLoop(), {});
  std::vector<Attribute> attributes;
  for (const std::string& text : flags.attributes) {
    const std::string_view attribute = text;
    const size_t equals = attribute.find('=');
    attributes.push_back({attribute.substr(0, equals), attribute.substr(equals + 1)});
  }
  service::Request request;
  request.domain = flags.domain;
  request.attributes = attributes;
  request.options.cost = flags.cost;
  OneAnswer answer;
  decider.Submit(request, answer, 0);
  decider.Flush();
  if (answer.error) return tl::unexpected(*answer.error);
  return std::move(answer.text);
}

}  // namespace penstock::app
