#include "service/holder_desk_impl.h"

#include <utility>

#include "engine/permit_id.h"
#include "service/decider_impl.h"

namespace penstock::service {
namespace {

PermitText TextOf(const engine::HolderList& list, const engine::HolderList::Entry& entry, bool local) {
  engine::PermitId permit{.id = entry.id, .weight = entry.weight, .local = local, .size = 1};
  permit.places[0] = {list.bucket, entry.fence};
  return engine::ToText(permit);
}

}  // namespace

void HolderListing::Fill(const core::Operation& operation, const engine::GroupResult& result) {
  if (result.state != engine::GroupState::kDecided) {
    unavailable = result.state == engine::GroupState::kUnavailable ? result.reason : Reason::kStale;
    return;
  }
  const core::Limit& limit = *operation.limit;
  permits = limit.version == 0 ? 0 : limit.params.capacity;
  local = result.degraded;
}

void HolderDeskImpl::List(const Request& request, std::string_view holder, HolderReceiver& receiver,
                          uint64_t token) {
  const bool ad_hoc = request.ad_hoc.has_value() || !request.ad_hoc_key.empty();
  if (!ad_hoc && request.only_limit.empty()) {
    return receiver.HoldersListed(token,
                                  Invalid("limit: holders are those of one limit, which must be named"));
  }
  if (questions_.size() == kMaxListings) {
    Holders none;
    none.unavailable = Reason::kOverload;
    return receiver.HoldersListed(token, &none);
  }
  Request ask;
  ask.mode = engine::Mode::kHolders;
  ask.domain = request.domain;
  ask.attributes = request.attributes;
  ask.only_limit = request.only_limit;
  if (ad_hoc) {
    ask.ad_hoc = kAnySemaphore;
    ask.ad_hoc_key = request.ad_hoc_key;
  }
  const uint64_t number = ++last_;
  auto question = std::make_unique<Question>();
  question->listing.list.only = holder;
  question->receiver = &receiver;
  question->token = token;
  HolderListing& listing = question->listing;
  questions_.emplace(number, std::move(question));
  decider_.SubmitListing(ask, listing, *this, number);
  decider_.Flush();
}

void HolderDeskImpl::Detach(const HolderReceiver& receiver) {
  for (auto& [number, question] : questions_) {
    if (question->receiver == &receiver) question->receiver = nullptr;
  }
}

void HolderDeskImpl::Decided(uint64_t number, const Result<const Decision*>& decision) noexcept {
  const auto found = questions_.find(number);
  const std::unique_ptr<Question> question = std::move(found->second);
  questions_.erase(found);
  if (question->receiver == nullptr) return;
  if (!decision) {
    return question->receiver->HoldersListed(question->token, tl::unexpected<Error>(decision.error()));
  }
  const HolderListing& listing = question->listing;
  Holders holders;
  holders.unavailable = listing.unavailable;
  if (listing.unavailable == Reason::kNone) {
    holders.permits = listing.permits;
    holders.in_use = listing.list.in_use;
    holders.waiting = listing.list.waiting;
    holders.more = listing.list.more;
    holders.entries.reserve(listing.list.entries.size());
    for (const engine::HolderList::Entry& entry : listing.list.entries) {
      holders.entries.push_back({TextOf(listing.list, entry, listing.local), entry.holder, entry.weight,
                                 entry.fence, std::chrono::microseconds(entry.expires_in.count)});
    }
  }
  question->receiver->HoldersListed(question->token, &holders);
}

}  // namespace penstock::service
