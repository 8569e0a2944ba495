// The HolderDesk of every protocol: a question to the engine like a check, with a list for its answer.
//
// Thread contract: as HolderDesk's.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "core/operation.h"
#include "engine/engine.h"
#include "service/decider.h"
#include "service/holder_desk.h"

namespace penstock::service {

class DeciderImpl;

// A list on its way, and what the decider knew when it came.
struct HolderListing {
  engine::HolderList list;
  Reason unavailable = Reason::kNone;
  int64_t permits = 0;
  bool local = false;  // answered by what stands in for the engine

  void Fill(const core::Operation& operation, const engine::GroupResult& result);
};

class HolderDeskImpl final : public HolderDesk, private Receiver {
 public:
  static constexpr size_t kMaxListings = 64;  // under way at once; beyond, `unavailable`, overload

  explicit HolderDeskImpl(DeciderImpl& decider) : decider_(decider) {}

  void List(const Request& request, std::string_view holder, HolderReceiver& receiver,
            uint64_t token) override;
  void Detach(const HolderReceiver& receiver) override;

 private:
  struct Question {
    HolderListing listing;
    HolderReceiver* receiver = nullptr;  // null: he is gone
    uint64_t token = 0;
  };

  // The token is the question's number.
  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override;

  DeciderImpl& decider_;
  std::unordered_map<uint64_t, std::unique_ptr<Question>> questions_;
  uint64_t last_ = 0;
};

}  // namespace penstock::service
