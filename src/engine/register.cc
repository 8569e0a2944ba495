// EngineSession::Register: limits that come without a policy's text are registered by what they were compiled to.
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace penstock::engine {
namespace {

void AppendNumber(std::string& out, int64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

// Everything whose change makes a new version.
void AppendContent(std::string& out, const core::Limit& limit) {
  const core::LimitParams& params = limit.params;
  AppendNumber(out, static_cast<int64_t>(limit.identity.size()));
  out += limit.identity;
  for (const int64_t part : {static_cast<int64_t>(params.algorithm), static_cast<int64_t>(params.window),
                             static_cast<int64_t>(params.kind), params.capacity, params.count,
                             params.period.count, params.tick.count, params.drain, params.unit_cost}) {
    AppendNumber(out, part);
  }
}

}  // namespace

void EngineSession::Register(std::span<core::Limit* const> limits, std::function<void(Result<void>)> done) {
  // A limit and its overrides share domain and name: they are one registration, with one version.
  std::unordered_map<std::string, size_t> places;
  std::vector<Claim> claims;
  std::vector<size_t> claim_of;
  for (const core::Limit* limit : limits) {
    const auto [place, fresh] = places.emplace(limit->domain + "/" + limit->name, claims.size());
    if (fresh) {
      Claim& claim = claims.emplace_back();
      claim.domain = limit->domain;
      claim.name = limit->name;
    }
    AppendContent(claims[place->second].definition, *limit);
    claim_of.push_back(place->second);
  }
  registry().Register(std::move(claims), [this, all = std::vector<core::Limit*>(limits.begin(), limits.end()),
                                          claim_of = std::move(claim_of), done = std::move(done)](
                                             Result<std::vector<RegisteredLimit>> registered) {
    if (!registered) return done(tl::unexpected<Error>(registered.error()));
    for (size_t i = 0; i < all.size(); ++i) all[i]->version = (*registered)[claim_of[i]].version;
    done(Bind(all));
  });
}

}  // namespace penstock::engine
