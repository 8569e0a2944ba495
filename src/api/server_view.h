// What the handlers may ask of the server around them: its health, its figures, its policy.
#pragma once

#include <string>

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

}  // namespace penstock::api
