// One call of the registry's script on its way. Inside RedisRegistry only.
//
// Life: Start; then Finish exactly once, unless the registry is gone before. The registry drops it in Forget.
//
// Thread contract: one event loop's thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/redis/registry.h"

namespace penstock::engine::redis {

class RedisRegistry::Call final : public Exchange {
 public:
  Call(RedisRegistry& owner, std::vector<std::string> arguments, Answer answer);
  ~Call() override;

  void Start();

  void Prepare(const ClockOffset& clock) noexcept override;
  std::string_view command() const noexcept override { return command_; }
  const Script* script() const noexcept override { return &owner_->parts_.script; }
  void Expired() noexcept override;
  void Done(const Reply& reply) noexcept override;

  // Nobody hears of this call any more. True: it is with a link, which lets go of it by Done.
  bool Silence();
  // The registry goes; what is with a link destroys itself when that lets go of it.
  void Orphan() { owner_ = nullptr; }

 private:
  void Send();
  void Finish(const Result<Parts>& parts);
  void Fail(std::string_view why);

  RedisRegistry* owner_;  // null: gone
  std::string command_;
  size_t not_after_ = 0;  // where its digits stand in command_
  Answer answer_;
  Timer::Id retry_ = 0;
  bool sent_ = false;      // the link has it
  bool finished_ = false;  // answered
};

}  // namespace penstock::engine::redis
