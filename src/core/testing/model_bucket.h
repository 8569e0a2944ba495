// One bucket of the judge (model.h) without versions and groups. Included by the judge's own sources only.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "core/testing/model.h"

namespace penstock::core::testing {

// Nothing is told longer than this: 2^52 us.
inline constexpr int64_t kModelLongestUs = int64_t{1} << 52;

inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "the judge contradicts itself: %s\n", what);
  std::abort();
}

// Everything is asked for an instant; nothing changes but by the calls that say so.
class ModelBucket {
 public:
  virtual ~ModelBucket() = default;
  virtual std::unique_ptr<ModelBucket> Clone() const = 0;

  virtual int64_t Capacity() const = 0;
  // Whether a cost of 0 or more is within what is left at this instant, if nobody came since.
  virtual bool Fits(int64_t at, int64_t cost) const = 0;
  // A guess, which the caller holds against Fits: the first instant from `at` on at which the cost fits.
  virtual int64_t FirstFit(int64_t at, int64_t cost) const = 0;
  // The first instant from which there is no use; `at` or earlier when there is none now.
  virtual int64_t NoUseFrom(int64_t at) const = 0;
  // The bucket's own clock: it does not go back.
  virtual int64_t OwnNow(int64_t at) const = 0;

  // Adds use whatever is left; true when it is held at the largest number.
  virtual bool Charge(int64_t at, int64_t cost, ModelCharge& charge) = 0;
  // Takes use back; says how much was there to take.
  virtual int64_t Refund(int64_t at, int64_t cost, ModelCharge& charge) = 0;
  virtual bool Adjust(int64_t at, const ModelCharge& charge, int64_t delta) = 0;
  // The same use under other parameters of the same kind; true when held at the largest number.
  virtual bool Convert(int64_t at, const ModelSpec& spec) = 0;
  virtual bool AdjustsBeforeConvert() const { return true; }
};

std::unique_ptr<ModelBucket> MakeTokenModel(const ModelSpec& spec);
std::unique_ptr<ModelBucket> MakeFixedModel(const ModelSpec& spec);
std::unique_ptr<ModelBucket> MakeSlidingModel(const ModelSpec& spec);
std::unique_ptr<ModelBucket> MakeLogModel(const ModelSpec& spec);

}  // namespace penstock::core::testing
