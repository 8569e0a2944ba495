// Reading a snapshot. Nothing in the file is believed: every length is checked before memory is taken for it, every
// checksum before a payload is looked at, and every number before core calculates with it.
#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "engine/memory/bucket_table.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/registry.h"
#include "engine/memory/request_ids.h"
#include "engine/memory/snapshot_check.h"
#include "engine/memory/snapshot_format.h"
#include "engine/memory/snapshot_source.h"
#include "penstock/request.h"

namespace penstock::engine {
namespace {

using snapshot::Bucket;
using snapshot::Cursor;
using snapshot::InRange;
using snapshot::Kind;
using snapshot::Source;

}  // namespace

class SnapshotReader {
 public:
  SnapshotReader(MemoryEngine& engine, Source& source, const std::string& name)
      : engine_(engine), source_(source), name_(name), now_(engine.Now()) {}
  ~SnapshotReader() { ReleaseParams(); }
  SnapshotReader(const SnapshotReader&) = delete;
  SnapshotReader& operator=(const SnapshotReader&) = delete;

  Result<void> Read() {
    if (Result<void> result = ReadHead(); !result) return result;
    while (!ended_) {
      if (Result<void> result = ReadBlock(); !result) return result;
    }
    char byte = 0;
    const std::optional<size_t> more = source_.Read(&byte, 1);
    if (!more) return Unreadable();
    if (*more > 0) return Bad("bytes follow the end");
    engine_.registry_->RaiseLast(last_version_);
    return {};
  }

 private:
  tl::unexpected<Error> Bad(const std::string& what, size_t within = 0) const {
    return Invalid("snapshot " + name_ + ", byte " + std::to_string(offset_ + within) + ": " + what);
  }
  tl::unexpected<Error> Unreadable() const {
    return Fail(ErrorKind::kUnavailable, "cannot read snapshot " + name_ + " at byte " +
                                             std::to_string(offset_) + ": " +
                                             std::generic_category().message(errno));
  }
  // The next `size` bytes into buffer_.
  Result<void> Fetch(size_t size) {
    buffer_.resize(size);
    const std::optional<size_t> got = source_.Read(buffer_.data(), size);
    if (!got) return Unreadable();
    if (*got < size) return Bad("the file ends too early", *got);
    return {};
  }

  Result<void> ReadHead() {
    if (Result<void> result = Fetch(snapshot::kHeadBytes); !result) return result;
    const std::string_view head = buffer_;
    Cursor cursor(head.substr(snapshot::kMagic.size()));
    if (!head.starts_with(snapshot::kMagic)) return Bad("this is no Penstock snapshot");
    layout_ = cursor.Take<uint32_t>();
    // The rest may look different in another layout, so that this comes before the checksum.
    if (layout_ < snapshot::kOldestLayout || layout_ > snapshot::kLayout) {
      return Bad("layout " + std::to_string(layout_) + " is not known to this version, which writes layout " +
                     std::to_string(snapshot::kLayout),
                 snapshot::kMagic.size());
    }
    const auto zero = cursor.Take<uint32_t>();
    HashKey::Seed seed;
    for (unsigned char& byte : seed) byte = cursor.Take<unsigned char>();
    (void)cursor.Take<int64_t>();  // when it was written: for people
    if (zero != 0 || cursor.Take<uint64_t>() != Checksum64(head.substr(0, head.size() - sizeof(uint64_t)))) {
      return Bad("the head is damaged (checksum)");
    }
    engine_.hash_key_ = HashKey(seed);
    offset_ = snapshot::kHeadBytes;
    return {};
  }

  Result<void> ReadBlock() {
    if (Result<void> result = Fetch(snapshot::kBlockHeadBytes); !result) return result;
    Cursor head(buffer_);
    const auto kind = head.Take<uint32_t>();
    const auto length = head.Take<uint32_t>();
    const auto sum = head.Take<uint64_t>();
    if (length > snapshot::kMaxBlockBytes)
      return Bad("a block says that it has " + std::to_string(length) + " bytes");
    const uint64_t head_sum = Checksum64(std::string_view(buffer_).substr(0, 2 * sizeof(uint32_t)));
    offset_ += snapshot::kBlockHeadBytes;
    if (Result<void> result = Fetch(length); !result) return result;
    if ((Checksum64(buffer_) ^ head_sum) != sum) return Bad("a block is damaged (checksum)");
    Cursor payload(buffer_);
    Result<void> result = ReadPayload(static_cast<Kind>(kind), payload);
    if (!result) return result;
    if (payload.cut_short() || payload.left() > 0) return Bad("a block's length does not fit its content");
    offset_ += length;
    return {};
  }

  Result<void> ReadPayload(Kind kind, Cursor& payload) {
    switch (kind) {
      case Kind::kBuckets:
        return ReadBuckets(payload);
      case Kind::kIds:
        return ReadIds(payload);
      case Kind::kRegistry:
        return ReadRegistry(payload);
      case Kind::kEnd:
        return ReadEnd(payload);
    }
    return Bad("a block is of a kind that is not known");
  }

  Result<void> ReadParams(Cursor& payload) {
    ReleaseParams();
    for (auto count = payload.Take<uint32_t>(); count > 0 && !payload.cut_short(); --count) {
      core::LimitParams params;
      const size_t at = payload.at();
      params.algorithm = static_cast<core::Algorithm>(payload.Take<uint8_t>());
      params.window = static_cast<core::WindowKind>(payload.Take<uint8_t>());
      params.capacity = payload.Take<int64_t>();
      params.count = payload.Take<int64_t>();
      params.period.count = payload.Take<int64_t>();
      params.tick.count = payload.Take<int64_t>();
      params.drain = payload.Take<int64_t>();
      params.unit_cost = payload.Take<int64_t>();
      const auto version = payload.Take<int64_t>();
      if (payload.cut_short()) break;
      const auto last =
          layout_ < snapshot::kFirstWithPermits ? core::Algorithm::kSlidingLog : core::Algorithm::kPermits;
      if (params.algorithm > last || params.window > core::WindowKind::kYear || !snapshot::Valid(params) ||
          !InRange(version, 0, Slot::kMaxField)) {
        return Bad("the parameters of a limit make no sense", at);
      }
      const uint32_t index = engine_.params_->Intern(params, version);
      if (index == ParamTable::kNone)
        return Bad("more different parameters than the engine is allowed to hold", at);
      params_.push_back(index);
      last_version_ = std::max(last_version_, version);
    }
    return {};
  }

  void ReleaseParams() {
    for (const uint32_t index : params_) engine_.params_->Release(index);
    params_.clear();
  }

  Result<void> ReadBuckets(Cursor& payload) {
    if (Result<void> result = ReadParams(payload); !result) return result;
    Bucket bucket;
    for (auto count = payload.Take<uint32_t>(); count > 0 && !payload.cut_short(); --count) {
      const size_t at = payload.at();
      bucket.name.high = payload.Take<uint64_t>();
      bucket.name.low = payload.Take<uint64_t>();
      const auto number = payload.Take<uint32_t>();
      bucket.state = {{payload.Take<int64_t>()}, 0, 0};
      bucket.state.value = payload.Take<int64_t>();
      bucket.runs.clear();
      bucket.holders.clear();
      if (payload.cut_short()) break;
      if (number >= params_.size()) return Bad("a bucket refers to parameters that are not there", at);
      const core::LimitParams& params = (*engine_.params_)[params_[number]].params;
      if (params.algorithm == core::Algorithm::kSlidingWindow) bucket.state.before = payload.Take<int64_t>();
      if (params.algorithm == core::Algorithm::kSlidingLog && !TakeRuns(payload, bucket))
        return Bad("a sliding log is longer than can be", at);
      if (params.algorithm == core::Algorithm::kPermits && !TakeHolders(payload, bucket))
        return Bad("more holders stand there than can at once", at);
      if (payload.cut_short()) break;
      if (!snapshot::Valid(params, bucket)) return Bad("a bucket's state makes no sense", at);
      snapshot::ClampToNow(params, now_, bucket);
      if (!snapshot::IsIdle(params, now_, bucket) && !Restore(params_[number], params, bucket)) {
        return Bad("a bucket stands there twice, or there are more than max_keys (" +
                       std::to_string(engine_.options_.max_keys) + ")",
                   at);
      }
      ++buckets_;
    }
    return {};
  }

  static bool TakeRuns(Cursor& payload, Bucket& bucket) {
    const auto runs = payload.Take<uint32_t>();
    if (runs > core::kMaxLogCount) return false;
    for (uint32_t i = 0; i < runs && !payload.cut_short(); ++i) {
      const EngineTime when{payload.Take<int64_t>()};
      bucket.runs.push_back({when, payload.Take<int64_t>()});
    }
    return true;
  }

  static bool TakeHolders(Cursor& payload, Bucket& bucket) {
    bucket.state.before = payload.Take<int64_t>();
    const auto holders = payload.Take<uint32_t>();
    if (holders > snapshot::kMaxHoldersAnEntry) return false;
    for (uint32_t i = 0; i < holders && !payload.cut_short(); ++i) {
      KnownHolder& known = bucket.holders.emplace_back();
      known.holder.id.high = payload.Take<uint64_t>();
      known.holder.id.low = payload.Take<uint64_t>();
      known.holder.expires_at = {payload.Take<int64_t>()};
      known.holder.weight = payload.Take<int64_t>();
      known.holder.fence = payload.Take<int64_t>();
      known.name = payload.TakeBytes(payload.Take<uint16_t>());
    }
    return true;
  }

  bool Restore(uint32_t number, const core::LimitParams& params, const Bucket& bucket) {
    if (params.algorithm == core::Algorithm::kPermits)
      return engine_.table_->RestorePermits(bucket.name, number, bucket.state, bucket.holders, now_);
    return engine_.table_->Restore(bucket.name, number, bucket.state, bucket.runs);
  }

  Result<void> ReadIds(Cursor& payload) {
    for (auto count = payload.Take<uint32_t>(); count > 0 && !payload.cut_short(); --count) {
      const size_t at = payload.at();
      Hash128 id;
      id.high = payload.Take<uint64_t>();
      id.low = payload.Take<uint64_t>();
      IdRecord record;
      record.fingerprint = payload.Take<uint64_t>();
      record.expires = {payload.Take<int64_t>()};
      if (layout_ >= snapshot::kFirstWithPermits) {
        record.permit_id.high = payload.Take<uint64_t>();
        record.permit_id.low = payload.Take<uint64_t>();
      }
      const auto operations = payload.Take<uint32_t>();
      if (operations > kMaxLimitsPerRequest) return Bad("a request id has more verdicts than can be", at);
      for (uint32_t i = 0; i < operations && !payload.cut_short(); ++i) {
        record.operations.push_back(TakeOperation(payload));
        if (!operation_ok_) return Bad("what a request id remembers makes no sense", at);
      }
      if (payload.cut_short()) break;
      RestoreId(id, std::move(record));
      ++ids_;
    }
    return {};
  }

  StoredOperation TakeOperation(Cursor& payload) {
    StoredOperation stored;
    core::Verdict& verdict = stored.verdict;
    core::Charge& charge = stored.charge;
    stored.name.high = payload.Take<uint64_t>();
    stored.name.low = payload.Take<uint64_t>();
    const auto outcome = payload.Take<uint8_t>();
    verdict.outcome = static_cast<Outcome>(outcome);
    verdict.saturated = payload.Take<uint8_t>() != 0;
    for (int64_t* field : {&verdict.limit, &verdict.remaining, &verdict.taken, &verdict.retry_after.count,
                           &verdict.reset_after.count, &verdict.wait.count, &charge.at.us, &charge.window.us,
                           &charge.debt_before, &charge.cost, &charge.version}) {
      *field = payload.Take<int64_t>();
    }
    operation_ok_ =
        outcome <= static_cast<uint8_t>(Outcome::kUnavailable) && InRange(charge.at.us, 0, Slot::kMaxField) &&
        InRange(charge.window.us, 0, Slot::kMaxField) && InRange(charge.debt_before, 0, core::kMaxExact) &&
        InRange(charge.cost, -kMaxCost, kMaxCost) && InRange(charge.version, 0, Slot::kMaxField);
    return stored;
  }

  // An id for which there is no room is given up: its request is decided anew, as if it had not been kept.
  void RestoreId(const Hash128& id, IdRecord record) NO_THREAD_SAFETY_ANALYSIS {
    const EngineTime latest = now_ + Millis(kMaxSettleWithinMs);
    const EngineTime expires = std::min(record.expires, latest);
    ShardLock& lock = engine_.ids_->LockOf(id);
    lock.Lock();
    if (expires > now_ && engine_.ids_->Find(id, now_) == nullptr) {
      if (IdRecord* const kept = engine_.ids_->Insert(id, record.operations.size(), expires, now_)) {
        kept->fingerprint = record.fingerprint;
        kept->permit_id = record.permit_id;
        kept->operations = std::move(record.operations);
      }
    }
    lock.Unlock();
  }

  Result<void> ReadRegistry(Cursor& payload) {
    for (auto count = payload.Take<uint32_t>(); count > 0 && !payload.cut_short(); --count) {
      const size_t at = payload.at();
      core::Version version = 0;
      if (Result<void> result = layout_ == 1 ? ReadOldLimit(payload, version) : ReadLimit(payload, version);
          !result) {
        return result;
      }
      if (payload.cut_short()) break;
      if (!InRange(version, 1, Slot::kMaxField)) return Bad("a limit's version makes no sense", at);
      last_version_ = std::max(last_version_, version);
      ++limits_;
    }
    return {};
  }

  Result<void> ReadOldLimit(Cursor& payload, core::Version& version) {
    constexpr size_t kHashes = 2 * sizeof(Hash128);
    (void)payload.TakeBytes(kHashes);
    version = payload.Take<int64_t>();
    return {};
  }

  Result<void> ReadLimit(Cursor& payload, core::Version& version) {
    const size_t at = payload.at();
    RegistryBook::Entry entry;
    entry.version = version = payload.Take<int64_t>();
    entry.revision = payload.Take<int64_t>();
    const std::string key(payload.TakeBytes(payload.Take<uint32_t>()));
    entry.file = payload.TakeBytes(payload.Take<uint32_t>());
    entry.put = payload.TakeBytes(payload.Take<uint32_t>());
    if (payload.cut_short()) return {};  // the caller says so
    if (key.find('/') == std::string::npos || entry.revision < 0 || entry.version < 1 ||
        entry.file.size() > kMaxDefinitionBytes || entry.put.size() > kMaxDefinitionBytes) {
      return Bad("a limit's registration makes no sense", at);
    }
    if (!engine_.registry_->Restore(key, std::move(entry)))
      return Bad("a limit stands there twice, or there are too many", at);
    return {};
  }

  Result<void> ReadEnd(Cursor& payload) {
    const auto buckets = payload.Take<uint64_t>();
    const auto ids = payload.Take<uint64_t>();
    const auto limits = payload.Take<uint64_t>();
    const auto last = payload.Take<int64_t>();
    if (payload.cut_short()) return {};  // the caller says so
    if (buckets != buckets_ || ids != ids_ || limits != limits_) return Bad("blocks are missing");
    if (!InRange(last, 0, Slot::kMaxField)) return Bad("the last version makes no sense");
    last_version_ = std::max(last_version_, last);
    ended_ = true;
    return {};
  }

  MemoryEngine& engine_;
  Source& source_;
  const std::string name_;
  const EngineTime now_;
  std::string buffer_;
  size_t offset_ = 0;             // of buffer_ in the file
  std::vector<uint32_t> params_;  // the block's parameters, a reference held on each
  bool operation_ok_ = true;      // of the operation last taken
  bool ended_ = false;
  uint32_t layout_ = 0;
  uint64_t buckets_ = 0;
  uint64_t ids_ = 0;
  uint64_t limits_ = 0;
  core::Version last_version_ = 0;
};

Result<void> MemoryEngine::LoadSnapshot(const std::string& path) {
  snapshot::FileSource source(path);
  if (!source.is_open()) {
    const ErrorKind kind = errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable;
    return Fail(kind, "cannot open snapshot " + path + ": " + std::generic_category().message(errno));
  }
  // Not kInvalid: what may be discarded is a damaged snapshot, not somebody's FIFO or device.
  if (!source.is_regular()) {
    return Fail(ErrorKind::kUnavailable, "snapshot " + path + " is not a regular file");
  }
  return SnapshotReader(*this, source, path).Read();
}

Result<void> MemoryEngine::LoadSnapshotBytes(std::string_view bytes, const std::string& name) {
  snapshot::MemorySource source(bytes);
  return SnapshotReader(*this, source, name).Read();
}

}  // namespace penstock::engine
