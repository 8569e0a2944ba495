// A snapshot file as a disk or a person may have changed it. The first byte of an input says whether the checksums are
// made right before it is loaded (`c`: they are, so that what lies behind them is reached); the rest is the file. The
// seeds are `c` or `r` and a file that SaveSnapshot wrote with the limits below.
//
// Besides not crashing: what was refused is refused with a place; what was taken over decides without harm.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/snapshot_format.h"

namespace {

using namespace penstock;          // NOLINT(google-build-using-namespace)
using namespace penstock::engine;  // NOLINT(google-build-using-namespace)

void Require(bool holds) {
  if (!holds) std::abort();
}

std::string WithGoodChecksums(std::string bytes) {
  if (bytes.size() < snapshot::kHeadBytes) return bytes;
  const std::string_view view = bytes;
  const uint64_t head = Checksum64(view.substr(0, snapshot::kHeadBytes - sizeof(uint64_t)));
  std::memcpy(&bytes[snapshot::kHeadBytes - sizeof head], &head, sizeof head);
  for (size_t at = snapshot::kHeadBytes; at + snapshot::kBlockHeadBytes <= bytes.size();) {
    uint32_t length = 0;
    std::memcpy(&length, &bytes[at + sizeof length], sizeof length);
    const size_t payload = at + snapshot::kBlockHeadBytes;
    if (length > bytes.size() - payload) break;
    const uint64_t sum =
        Checksum64(view.substr(payload, length)) ^ Checksum64(view.substr(at, 2 * sizeof length));
    std::memcpy(&bytes[at + 2 * sizeof length], &sum, sizeof sum);
    at = payload + length;
  }
  return bytes;
}

class Nothing final : public Sink {
 public:
  void Decided(Batch&, Group&) noexcept override {}
};

// A few decisions on the buckets that the seeds hold.
void Use(MemoryEngine& engine, ManualClock& clock) {
  const std::unique_ptr<EngineSession> session = engine.OpenSession();
  std::vector<std::unique_ptr<core::Limit>> limits;
  for (const core::Algorithm algorithm : {core::Algorithm::kTokenBucket, core::Algorithm::kFixedWindow,
                                          core::Algorithm::kSlidingWindow, core::Algorithm::kSlidingLog}) {
    core::RateSpec spec;
    spec.algorithm = algorithm;
    spec.count = 100;
    spec.period = Seconds(1'000);
    auto limit = std::make_unique<core::Limit>();
    limit->domain = "d";
    limit->name = limit->identity = "limit" + std::to_string(static_cast<int>(algorithm));
    limit->params = core::CompileRate(spec).value();
    core::Limit* one[] = {limit.get()};
    session->Register(one, [](const Result<void>& result) { Require(result.has_value()); });
    limits.push_back(std::move(limit));
  }
  Nothing sink;
  for (const Mode mode : {Mode::kCheck, Mode::kSettle, Mode::kCheck}) {
    Batch batch;
    for (const std::string_view key : {"0", "1", "named"}) {
      Group& group = batch.AddGroup();
      group.mode = mode;
      group.domain = "d";
      group.request_id = key == "named" ? "an-id" : std::string_view();
      for (const auto& limit : limits) batch.AddOperation(*limit, std::span(&key, 1)).cost = 2;
    }
    session->Decide(batch, SteadyTime{}, sink);
    clock.Advance(Seconds(10));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'c') bytes = WithGoodChecksums(std::move(bytes));
  ManualClock clock(EngineTime{1'800'057'600'000'000});
  MemoryEngine engine({.max_keys = 1'000, .shards = 2, .max_request_verdicts = 1'000}, clock);
  const Result<void> result = engine.LoadSnapshotBytes(bytes, "input");
  if (!result) {
    Require(result.error().message.find("byte ") != std::string::npos);
    return 0;
  }
  Use(engine, clock);
  return 0;
}
