// What the handlers may ask of the server around them: its health, its figures, its policy.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/limit_registry.h"
#include "service/policy_store.h"

namespace penstock::api {

class ServerView {
 public:
  virtual ~ServerView() = default;
  // False with the reason while a policy is not loaded, the engine does not answer, or the server shuts down.
  virtual bool Ready(std::string& reason) const = 0;
  virtual void AppendMetrics(std::string& out) const = 0;
  // Null, or without a policy inside, when only ad hoc limits are taken.
  virtual service::PolicyPointer policy() const = 0;
};

// Changes limits at run time (service/limit_keeper.h). One an event loop: `done` comes on the loop that asked, later or
// inside the call.
class LimitChanges {
 public:
  using Done = std::function<void(Result<engine::RegisteredLimit>)>;
  virtual ~LimitChanges() = default;
  virtual void Put(std::string domain, std::string name, std::string body,
                   std::optional<core::Version> if_match, Done done) = 0;
  virtual void Remove(std::string domain, std::string name, std::optional<core::Version> if_match,
                      Done done) = 0;
};

}  // namespace penstock::api
