#include "engine/memory/holder_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/random.h"
#include "base/test_seed.h"

namespace penstock::engine {
namespace {

constexpr EngineTime kStart{1'800'057'600'000'000};
constexpr Micros kLease = Seconds(10);

// Against a map, with a clock that steps back at times.
TEST(HolderRecordTest, CountsWhoIsUnexpiredAndListsThemInOrderWhereverTheClockGoes) {
  Random random(TestSeed());
  HolderRecord record;
  record.Begin();
  std::map<uint64_t, core::Holder> model;
  core::BucketEdit grant;
  grant.permit = core::PermitChange::kGrant;
  EngineTime now = kStart;
  EngineTime latest = kStart;
  for (int step = 0; step < 50'000; ++step) {
    now = now +
          Micros{random.Below(20) == 0 ? random.Between(-8'000'000, 8'000'000) : random.Between(0, 300'000)};
    latest = std::max(latest, now);
    now = std::max(now, latest - Seconds(8));  // less than a lease, so that nobody unexpired was forgotten
    record.Open(now, kLease);
    const uint64_t id = random.Below(200);
    const Hash128 name{id, id};
    switch (random.Below(4)) {
      case 0:
        record.Remove(name);
        model.erase(id);
        break;
      case 1:
        if (record.Find(name) != nullptr) {
          const EngineTime expires = now + Micros{random.Between(1, kLease.count)};
          record.Renew(name, expires);
          model[id].expires_at = expires;
          break;
        }
        [[fallthrough]];
      default: {
        const core::Holder holder{name, now + Micros{random.Between(1, kLease.count)}, random.Between(1, 5),
                                  step};
        ASSERT_TRUE(record.Reserve(grant));
        record.Grant(holder, std::to_string(id));
        model[id] = holder;
      }
    }
    int64_t in_use = 0;
    size_t live = 0;
    for (const auto& [key, holder] : model) {
      in_use += holder.expires_at > now ? holder.weight : 0;
      live += holder.expires_at > now ? 1 : 0;
    }
    ASSERT_EQ(record.in_use(), in_use) << "step " << step;
    if (step % 50 != 0) continue;
    EngineTime before = now;
    size_t seen = 0;
    for (const core::Holder* at = record.order().Next(nullptr); at != nullptr; at = record.order().Next(at)) {
      ASSERT_GE(at->expires_at, before);
      ASSERT_EQ(*at, model.at(at->id.low));
      ASSERT_EQ(HolderRecord::NameOf(*at), std::to_string(at->id.low));
      before = at->expires_at;
      ++seen;
    }
    ASSERT_EQ(seen, live);
  }
}

TEST(HolderRecordTest, ForgetsFasterThanHoldersCome) {
  HolderRecord record;
  record.Begin();
  core::BucketEdit grant;
  grant.permit = core::PermitChange::kGrant;
  EngineTime now = kStart;
  for (uint64_t id = 1; id <= 10'000; ++id) {
    record.Open(now, kLease);
    ASSERT_TRUE(record.Reserve(grant));
    record.Grant({{id, id}, now + kLease, 1, static_cast<int64_t>(id)}, {});
    now = now + Millis(100);
  }
  size_t known = 0;
  record.ForEach([&](const core::Holder&, std::string_view) { ++known; });
  EXPECT_LE(known, 201u);  // of two leases
  EXPECT_GE(known, 199u);
}

TEST(HolderRecordTest, ABoundOfThoseWhoHaveExpiredIsRemembered) {
  HolderRecord record;
  record.Begin();
  core::BucketEdit grant;
  grant.permit = core::PermitChange::kGrant;
  constexpr uint64_t kMany = HolderRecord::kMaxRemembered + 10'000;
  for (uint64_t id = 1; id <= kMany; ++id) {
    const EngineTime now = kStart + Micros{static_cast<int64_t>(id)};
    record.Open(now, kLease);
    ASSERT_TRUE(record.Reserve(grant));
    record.Grant({{id, id}, now + Micros{1}, 1, static_cast<int64_t>(id)}, {});
  }
  size_t known = 0;
  record.ForEach([&](const core::Holder&, std::string_view) { ++known; });
  EXPECT_EQ(known, HolderRecord::kMaxRemembered + 1);
  EXPECT_EQ(record.Find({1, 1}), nullptr);
  EXPECT_NE(record.Find({kMany - 1, kMany - 1}), nullptr);
  EXPECT_EQ(record.in_use(), 1);
}

}  // namespace
}  // namespace penstock::engine
