// Writing a snapshot: shard by shard, each copied into blocks under its lock and written after. The registry comes
// last: a limit that is registered anew meanwhile must not stand there with an older version than its buckets'.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/memory/atomic_file.h"
#include "engine/memory/bucket_table.h"
#include "engine/memory/memory_engine.h"
#include "engine/memory/registry.h"
#include "engine/memory/request_ids.h"
#include "engine/memory/snapshot_format.h"

namespace penstock::engine {
namespace {

using snapshot::Append;
using snapshot::Kind;

std::string Block(Kind kind, std::string_view payload) {
  std::string block;
  block.reserve(snapshot::kBlockHeadBytes + payload.size());
  Append(block, static_cast<uint32_t>(kind));
  Append(block, static_cast<uint32_t>(payload.size()));
  const uint64_t sum = Checksum64(payload) ^ Checksum64(block);
  Append(block, sum);
  block += payload;
  return block;
}

// Blocks of one kind whose entries are only counted.
class PlainBlocks {
 public:
  explicit PlainBlocks(Kind kind) : kind_(kind) {}

  // Where the next entry is to be appended.
  std::string& Next() {
    if (entries_.size() >= snapshot::kBlockBytes) Close();
    ++count_;
    ++total_;
    return entries_;
  }
  void Close() {
    if (count_ == 0) return;
    std::string payload;
    Append(payload, count_);
    blocks_.push_back(Block(kind_, payload + entries_));
    entries_.clear();
    count_ = 0;
  }
  uint64_t total() const { return total_; }
  std::vector<std::string>& blocks() { return blocks_; }

 private:
  const Kind kind_;
  std::vector<std::string> blocks_;
  std::string entries_;
  uint32_t count_ = 0;
  uint64_t total_ = 0;
};

// The blocks of one shard. Each block has its own list of parameters, so that it stands for itself.
class BucketBlocks {
 public:
  BucketBlocks(const ParamTable& params, size_t expected) : params_(params) {
    constexpr size_t kBytesPerBucket = 36;
    entries_.reserve(std::min(expected * kBytesPerBucket, snapshot::kBlockBytes) + kBytesPerBucket);
  }

  void Add(const Hash128& name, uint32_t params, const core::BucketState& state,
           std::span<const core::LogRun> runs) {
    Begin(name, params, state);
    const core::Algorithm algorithm = params_[params].params.algorithm;
    if (algorithm == core::Algorithm::kSlidingWindow) Append(entries_, state.before);
    if (algorithm == core::Algorithm::kSlidingLog) {
      Append(entries_, static_cast<uint32_t>(runs.size()));
      for (const core::LogRun& run : runs) {
        Append(entries_, run.at.us);
        Append(entries_, run.weight);
      }
    }
    ++count_;
  }
  // Returns how many entries it is.
  uint64_t AddPermits(const Hash128& name, uint32_t params, const HolderRecord& record) {
    std::vector<KnownHolder> holders;
    uint64_t entries = 0;
    record.ForEach([&](const core::Holder& holder, std::string_view holder_name) {
      holders.push_back({holder, holder_name});
      if (holders.size() < snapshot::kMaxHoldersAnEntry) return;
      AddHolders(name, params, record.state().before, holders);
      holders.clear();
      ++entries;
    });
    if (entries > 0 && holders.empty()) return entries;
    AddHolders(name, params, record.state().before, holders);
    return entries + 1;
  }
  void Close() {
    if (count_ == 0) return;
    std::string payload;
    payload.reserve(param_bytes_.size() + entries_.size() + 2 * sizeof(uint32_t));
    Append(payload, static_cast<uint32_t>(numbers_.size()));
    payload += param_bytes_;
    Append(payload, count_);
    payload += entries_;
    blocks_.push_back(Block(Kind::kBuckets, payload));
    numbers_.clear();
    param_bytes_.clear();
    entries_.clear();
    last_ = ParamTable::kNone;
    count_ = 0;
  }
  const std::vector<std::string>& blocks() const { return blocks_; }

 private:
  void Begin(const Hash128& name, uint32_t params, const core::BucketState& state) {
    if (entries_.size() >= snapshot::kBlockBytes || param_bytes_.size() >= snapshot::kBlockBytes) Close();
    Append(entries_, name.high);
    Append(entries_, name.low);
    Append(entries_, Number(params));
    Append(entries_, state.stamp.us);
    Append(entries_, state.value);
  }
  void AddHolders(const Hash128& name, uint32_t params, int64_t fence, std::span<const KnownHolder> holders) {
    core::BucketState state;
    for (const KnownHolder& known : holders) {
      state.stamp = std::max(state.stamp, known.holder.expires_at);
      state.value += known.holder.weight;
    }
    Begin(name, params, state);
    Append(entries_, fence);
    Append(entries_, static_cast<uint32_t>(holders.size()));
    for (const KnownHolder& known : holders) {
      Append(entries_, known.holder.id.high);
      Append(entries_, known.holder.id.low);
      Append(entries_, known.holder.expires_at.us);
      Append(entries_, known.holder.weight);
      Append(entries_, known.holder.fence);
      Append(entries_, static_cast<uint16_t>(known.name.size()));
      entries_ += known.name;
    }
    ++count_;
  }
  // The parameters' number within the block.
  uint32_t Number(uint32_t params) {
    if (params == last_) return last_number_;
    const auto [it, fresh] = numbers_.try_emplace(params, static_cast<uint32_t>(numbers_.size()));
    if (fresh) AppendParams(params_[params]);
    last_ = params;
    last_number_ = it->second;
    return last_number_;
  }
  void AppendParams(const ParamTable::Entry& entry) {
    const core::LimitParams& p = entry.params;
    Append(param_bytes_, static_cast<uint8_t>(p.algorithm));
    Append(param_bytes_, static_cast<uint8_t>(p.window));
    for (const int64_t part :
         {p.capacity, p.count, p.period.count, p.tick.count, p.drain, p.unit_cost, entry.version}) {
      Append(param_bytes_, part);
    }
  }

  const ParamTable& params_;
  std::vector<std::string> blocks_;
  std::unordered_map<uint32_t, uint32_t> numbers_;
  uint32_t last_ = ParamTable::kNone;
  uint32_t last_number_ = 0;
  std::string param_bytes_;
  std::string entries_;
  uint32_t count_ = 0;
};

void AppendId(std::string& out, const Hash128& id, const IdRecord& record) {
  Append(out, id.high);
  Append(out, id.low);
  Append(out, record.fingerprint);
  Append(out, record.expires.us);
  Append(out, record.permit_id.high);
  Append(out, record.permit_id.low);
  Append(out, static_cast<uint32_t>(record.operations.size()));
  for (const StoredOperation& stored : record.operations) {
    const core::Verdict& v = stored.verdict;
    const core::Charge& c = stored.charge;
    Append(out, stored.name.high);
    Append(out, stored.name.low);
    Append(out, static_cast<uint8_t>(v.outcome));
    Append(out, static_cast<uint8_t>(v.saturated));
    for (const int64_t part : {v.limit, v.remaining, v.taken, v.retry_after.count, v.reset_after.count,
                               v.wait.count, c.at.us, c.window.us, c.debt_before, c.cost, c.version}) {
      Append(out, part);
    }
  }
}

Result<void> WriteAll(AtomicFile& file, const std::vector<std::string>& blocks) {
  for (const std::string& block : blocks) {
    if (Result<void> result = file.Write(block); !result) return result;
  }
  return {};
}

}  // namespace

class SnapshotWriter {
 public:
  SnapshotWriter(MemoryEngine& engine, const std::string& path) : engine_(engine), file_(path) {}

  Result<void> Write() {
    if (Result<void> result = file_.Open(); !result) return result;
    if (Result<void> result = file_.Write(Head()); !result) return result;
    for (size_t i = 0; i < engine_.table_->shard_count(); ++i) {
      if (Result<void> result = WriteAll(file_, CopyShard(engine_.table_->shard(i))); !result) return result;
    }
    PlainBlocks ids(Kind::kIds);
    engine_.ids_->ForEach(
        engine_.Now(), [&](const Hash128& id, const IdRecord& record) { AppendId(ids.Next(), id, record); });
    ids.Close();
    if (Result<void> result = WriteAll(file_, ids.blocks()); !result) return result;
    PlainBlocks limits(Kind::kRegistry);
    for (const auto& [key, entry] : engine_.registry_->Entries()) {
      std::string& out = limits.Next();
      Append(out, entry.version);
      Append(out, entry.revision);
      for (const std::string_view text :
           {std::string_view(key), std::string_view(entry.file), std::string_view(entry.put)}) {
        Append(out, static_cast<uint32_t>(text.size()));
        out += text;
      }
    }
    limits.Close();
    if (Result<void> result = WriteAll(file_, limits.blocks()); !result) return result;
    std::string end;
    Append(end, buckets_);
    Append(end, ids.total());
    Append(end, limits.total());
    Append(end, engine_.registry_->last());
    if (Result<void> result = file_.Write(Block(Kind::kEnd, end)); !result) return result;
    return file_.Commit();
  }

 private:
  std::string Head() const {
    std::string head(snapshot::kMagic);
    Append(head, snapshot::kLayout);
    Append(head, uint32_t{0});
    const HashKey::Seed& seed = engine_.hash_key_.seed();
    head.append(reinterpret_cast<const char*>(seed.data()), seed.size());
    Append(head, engine_.Now().us);
    Append(head, Checksum64(head));
    return head;
  }

  std::vector<std::string> CopyShard(Shard& shard) NO_THREAD_SAFETY_ANALYSIS {
    shard.lock.Lock();
    const ParamTable& params = engine_.table_->params();
    BucketBlocks blocks(params, shard.slots.size());
    shard.slots.ForEach([&](const Slot& slot) {
      const core::Algorithm algorithm = params[slot.params()].params.algorithm;
      if (algorithm == core::Algorithm::kPermits) {
        const HolderRecord& record = shard.permits[static_cast<size_t>(slot.value())];
        buckets_ += blocks.AddPermits({slot.high, slot.low}, slot.params(), record);
        return;
      }
      const bool log = algorithm == core::Algorithm::kSlidingLog;
      const std::span<const core::LogRun> runs =
          log ? shard.logs[static_cast<size_t>(slot.value())].runs() : std::span<const core::LogRun>();
      blocks.Add({slot.high, slot.low}, slot.params(), engine_.table_->StateOf(shard, slot, algorithm), runs);
      ++buckets_;
    });
    shard.lock.Unlock();
    blocks.Close();
    return blocks.blocks();
  }

  MemoryEngine& engine_;
  AtomicFile file_;
  uint64_t buckets_ = 0;
};

Result<void> MemoryEngine::SaveSnapshot(const std::string& path) {
  const MutexLock lock(save_mutex_);
  return SnapshotWriter(*this, path).Write();
}

}  // namespace penstock::engine
