// Decides one request in the local engine, under this node's share of its limits, when the engine could not be asked.
//
// Of a request's limits those with on_failure `local` are decided, all or nothing; the others keep the outcome
// `unavailable`, and the answer follows their on_failure. Where one of these denies, or a share is missing, the request
// cannot be allowed: the local limits are then judged and not charged.
//
// Thread contract: one event loop's thread.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "service/failover/node.h"
#include "service/failover/share_cache.h"

namespace penstock::service {

// How a bucket of the local engine is.
struct LocalView {
  core::BucketState state;  // as of `now`
  EngineTime now;
  bool idle = false;  // the same as absent
  bool valid = false;
};
// Changes nothing. `scratch` is not kept.
LocalView LookAtLocal(engine::EngineSession& local, const core::Limit& share,
                      std::span<const std::string_view> key, const core::WindowBoundaries* boundaries,
                      engine::Batch& scratch);

// The ask and what it views, in the batch.
const core::PermitAsk* CopyAsk(const core::PermitAsk& ask, engine::Batch& batch);

// For those who look at the groups once Decide has returned.
struct NoSink final : engine::Sink {
  void Decided(engine::Batch&, engine::Group&) noexcept override {}
};

class StandIn {
 public:
  StandIn(FailoverNode& node, engine::EngineSession& remote, engine::EngineSession& local)
      : node_(node), local_(local), shares_(remote, local) {}

  // Precondition: the group is kUnavailable. True: it was decided here, or its request id belongs to another request.
  bool Decide(engine::Batch& batch, engine::Group& group);

 private:
  struct Chosen {
    core::Operation* operation = nullptr;
    Hash128 name;
    std::shared_ptr<const Share> share;
    bool has_bucket = false;
    int64_t before = 0;  // settling a log: its use before
  };

  void Choose(engine::Batch& batch, engine::Group& group, const engine::Fleet& fleet);
  bool OpenAll(const engine::Batch& batch, engine::Mode mode);
  bool Open(const engine::Batch& batch, Chosen& chosen);
  bool Seed(const Chosen& chosen, LocalBucket& bucket);
  void Close(const Chosen& chosen, const core::Operation& decided, bool charged, engine::Mode mode);
  void KeepPermit();
  // Copies what the local engine said into the request's own operations.
  void Tell(engine::Group& group);
  bool Finish(engine::Group& group);

  FailoverNode& node_;
  engine::EngineSession& local_;
  ShareCache shares_;
  NoSink no_sink_;
  // Of one call.
  std::vector<Chosen> chosen_;
  engine::Batch mine_;  // the request's local part
  engine::Batch seeds_;
  engine::GroupResult refusal_;  // why a bucket could not be opened
};

}  // namespace penstock::service
