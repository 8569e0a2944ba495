// What was asked of the service and is not answered yet: which slot the answer goes to, and the verb that writes it.
//
// Thread contract: one event loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/handler.h"
#include "base/result.h"
#include "base/time.h"
#include "penstock/decision.h"
#include "service/holder_desk.h"
#include "service/permit_desk.h"

namespace penstock::api {

// Things asked in one message, which are answered together when the last is known.
struct Together {
  size_t missing = 0;
  std::vector<std::string> items;    // their answers, in order
  std::string about;                 // what the message was about, as the verb needs it
  std::vector<std::string> permits;  // granted, not heard of yet, and not to be asked for again
};

template <class Slot>
class Asker;

template <class Slot>
struct Ask {
  // The asker's.
  Slot slot;
  Asker<Slot>* asker = nullptr;        // null: nobody is there to be answered any more
  uint32_t what = 0;                   // in its own numbers
  int64_t note = 0;                    // likewise
  std::shared_ptr<Together> together;  // null: answered by itself
  bool timed = false;                  // counts among the decisions whose latency is told
  // Turn's.
  enum class Kind : uint8_t { kCheck, kCall, kList };
  Kind kind = Kind::kCheck;
  bool patient = false;     // may wait in a queue
  bool repeatable = false;  // has a request id: who did not hear the answer may ask again, if the id was kept
  SteadyTime begin;
};

// A verb: what it asks for, it answers.
template <class Slot>
class Asker {
 public:
  virtual void Decided(const Ask<Slot>&, const Result<const Decision*>&) noexcept {}
  virtual void PermitAnswered(const Ask<Slot>&, const service::PermitAnswer&) noexcept {}
  virtual void HoldersListed(const Ask<Slot>&, const Result<const service::Holders*>&) noexcept {}

 protected:
  ~Asker() = default;
};

}  // namespace penstock::api
