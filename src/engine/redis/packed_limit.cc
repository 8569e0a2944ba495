#include "engine/redis/packed_limit.h"

#include "core/sliding_window.h"

namespace penstock::engine::redis {
namespace {

using core::Algorithm;
using core::LimitParams;

// Where the fields of a packed limit stand.
enum At : size_t {
  kHead = 0,
  kWindow = 2,
  kKind = 3,
  kVersion = 4,
  kA = 12,
  kB = 20,
  kTick = 28,
  kCapacity = 36,
  kEdges = 44
};

constexpr size_t kNumber = sizeof(double);
// Of a found bucket of permits: version, lease, capacity, latest expiry, held, last fence, mark; then flags.
constexpr size_t kPermitNumbers = 7;
constexpr char kWaitsFlag = 1;
constexpr char kOvertakesFlag = 2;
constexpr char kQueueFullFlag = 4;
constexpr int64_t kTicks[] = {1, 1'000, 1'000'000};

uint8_t TickCode(Micros tick) { return tick.count == 1 ? 0 : tick.count == 1'000 ? 1 : 2; }

// Whether the algorithm's states depend on the tick.
bool HasTick(Algorithm algorithm) {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kSlidingWindow;
}

// The second byte of limits and buckets: algorithm and tick.
uint8_t Shape(const LimitParams& params) {
  const uint8_t code = HasTick(params.algorithm) ? TickCode(params.tick) : 0;
  return static_cast<uint8_t>(static_cast<uint8_t>(params.algorithm) | code << 4);
}

// What a state depends on, as the scripts have it.
int64_t PartA(const LimitParams& params) {
  return params.algorithm == Algorithm::kTokenBucket ? params.drain : params.period.count;
}
int64_t PartB(const LimitParams& params) {
  if (params.algorithm == Algorithm::kPermits) return params.capacity;
  return params.algorithm == Algorithm::kTokenBucket ? params.unit_cost : 0;
}

bool SetParts(int64_t a, int64_t b, uint8_t tick_code, LimitParams& params) {
  if (a < 1 || a > core::kMaxExact || b > core::kMaxExact || tick_code > 2) return false;
  if (HasTick(params.algorithm)) params.tick = {kTicks[tick_code]};
  if (params.algorithm == Algorithm::kPermits) params.capacity = b;
  if (params.algorithm != Algorithm::kTokenBucket) {
    params.period = {a};
    return a % params.tick.count == 0;
  }
  params.drain = a;
  params.unit_cost = b;
  return b >= 1;
}

// Whether the rules can count with such a state: somebody else's bytes may look like a bucket.
bool Holds(const LimitParams& stored, const core::BucketState& state) {
  int64_t most = core::kMaxExact;
  if (stored.algorithm == Algorithm::kSlidingWindow) most = core::SlidingWindow::MaxUse(stored);
  const auto within = [](int64_t number, int64_t bound) { return number >= 0 && number <= bound; };
  return within(state.value, most) && within(state.before, most) &&
         within(state.stamp.us, 2 * core::kMaxExact);
}

}  // namespace

PackedLimit::PackedLimit(const core::Limit& limit) {
  const LimitParams& params = limit.params;
  bytes[kHead] = static_cast<char>(kLayout);
  bytes[kHead + 1] = static_cast<char>(Shape(params));
  bytes[kWindow] = static_cast<char>(params.window);
  bytes[kKind] = static_cast<char>(params.kind);
  PutDouble(&bytes[kVersion], limit.version);
  PutDouble(&bytes[kA], PartA(params));
  PutDouble(&bytes[kB], PartB(params));
  PutDouble(&bytes[kTick], HasTick(params.algorithm) ? params.tick.count : 1);
  PutDouble(&bytes[kCapacity], params.capacity);
}

void PackedLimit::SetEdges(const core::WindowBoundaries& edges) {
  char* out = &bytes[kEdges];
  for (const EngineTime edge : {edges.previous, edges.current, edges.next, edges.end_of_next}) {
    PutDouble(out, edge.us);
    out += kNumber;
  }
}

core::WindowBoundaries PackedLimit::edges() const {
  const auto edge = [this](size_t i) { return EngineTime{GetDouble(&bytes[kEdges + i * kNumber])}; };
  return {edge(0), edge(1), edge(2), edge(3)};
}

bool PackedLimit::Unpack(core::Limit& limit) const {
  const auto shape = static_cast<uint8_t>(bytes[kHead + 1]);
  const auto window = static_cast<uint8_t>(bytes[kWindow]);
  const auto kind = static_cast<uint8_t>(bytes[kKind]);
  if (static_cast<uint8_t>(bytes[kHead]) != kLayout) return false;
  if ((shape & 15) > static_cast<uint8_t>(Algorithm::kPermits)) return false;
  if (window > static_cast<uint8_t>(core::WindowKind::kYear)) return false;
  if (kind > static_cast<uint8_t>(core::RateKind::kUnlimited)) return false;
  LimitParams params;
  params.algorithm = static_cast<Algorithm>(shape & 15);
  params.window = static_cast<core::WindowKind>(window);
  params.kind = static_cast<core::RateKind>(kind);
  params.capacity = GetDouble(&bytes[kCapacity]);
  limit.version = GetDouble(&bytes[kVersion]);
  const bool finite = params.kind == core::RateKind::kFinite;
  const bool fine = !finite || SetParts(GetDouble(&bytes[kA]), GetDouble(&bytes[kB]), shape >> 4, params);
  limit.params = params;
  return fine;
}

bool TakeFound(const core::Limit& limit, std::string_view& bytes, FoundRoom& room, core::BucketView& view) {
  view = {};
  room.queue_full = false;
  if (bytes.empty()) return false;
  if (bytes[0] == 0) {
    bytes.remove_prefix(1);
    return true;
  }
  const LimitParams& params = limit.params;
  const bool bucket = params.algorithm == Algorithm::kTokenBucket;
  const bool permits = params.algorithm == Algorithm::kPermits;
  const bool log = params.algorithm == Algorithm::kSlidingLog;
  const size_t numbers = params.algorithm == Algorithm::kFixedWindow ? 4 : log ? 6 : 5;
  const size_t size = 2 + (permits ? kPermitNumbers * kNumber + 1 : numbers * kNumber);
  const auto shape = bytes.size() < size ? uint8_t{255} : static_cast<uint8_t>(bytes[1]);
  if ((shape & 15) != static_cast<uint8_t>(params.algorithm) || static_cast<uint8_t>(bytes[0]) != kLayout)
    return false;
  const char* in = bytes.data() + 2;
  const auto next = [&in] { return GetDouble((in += kNumber) - kNumber); };
  view.present = true;
  view.version = next();
  const int64_t a = next();
  const int64_t b = bucket || permits ? next() : 0;
  if (log) {
    const core::LogRun mark{{next()}, next()};
    view.state.stamp = {next()};
    view.state.value = next();
    size_t runs = 0;
    if (mark.weight < 0 || mark.weight > view.state.value || mark.at.us < 0 || mark.at > view.state.stamp)
      return false;
    if (mark.weight > 0) room.runs[runs++] = mark;
    const int64_t rest = view.state.value - mark.weight;
    if (rest > 0) room.runs[runs++] = {view.state.stamp, rest};
    view.runs = {room.runs.data(), runs};
  } else {
    view.state.stamp = {next()};
    view.state.value = next();
    if (params.algorithm == Algorithm::kSlidingWindow || permits) view.state.before = next();
  }
  if (permits) {
    const int64_t mark = next();
    if (mark < 0 || mark > core::kMaxExact) return false;
    room.holders.Set({mark});
    view.holders = &room.holders;
    view.waits = (*in & kWaitsFlag) != 0;
    room.queue_full = (*in & kQueueFullFlag) != 0;
    view.overtakes = (*in & kOvertakesFlag) != 0;
  }
  bytes.remove_prefix(size);
  if (a == PartA(params) && b == PartB(params) && shape == Shape(params)) [[likely]] {
    view.params = &params;
    return Holds(params, view.state);
  }
  room.params = params;
  view.params = &room.params;
  if (view.version == limit.version && view.version > 0) --view.version;
  return SetParts(a, b, shape >> 4, room.params) && Holds(room.params, view.state);
}

}  // namespace penstock::engine::redis
