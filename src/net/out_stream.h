// One outgoing connection. Internal to net.
//
// Life: (look-up of the name) -> connecting, address after address -> (handshake) -> open -> ended. What happens inside
// Dial or Write is told at the end of the turn of the loop, never from inside.
//
// Thread contract: the loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dialer.h"
#include "net/loop_impl.h"
#include "net/resolver.h"
#include "net/socket_address.h"
#include "net/tls_client.h"

namespace penstock::net {

// A loop that is perhaps gone, for the resolver's thread.
class Mailbox {
 public:
  explicit Mailbox(LoopImpl& loop) : loop_(&loop) {}
  void Close() EXCLUDES(mutex_);
  void Post(std::function<void()> task) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  LoopImpl* loop_ GUARDED_BY(mutex_);
};

class OutStream final : public Stream, public Watched, public TurnEnd {
 public:
  OutStream(LoopImpl& loop, std::shared_ptr<Mailbox> mailbox, TlsClient& tls_client, DialTarget target,
            StreamHandler& handler);
  ~OutStream() override;
  OutStream(const OutStream&) = delete;
  OutStream& operator=(const OutStream&) = delete;

  void Start(const ResolveFunction& resolve);

  void Write(std::string_view bytes) noexcept override;
  size_t unsent() const noexcept override { return output_.size() - sent_; }
  void OnReady(uint32_t events) noexcept override;
  void OnTurnEnd() noexcept override;

 private:
  enum class State : uint8_t { kResolving, kConnecting, kHandshake, kOpen, kEnded };
  enum class Went : uint8_t { kOn, kWaits, kEnded };

  void Found(const Resolved& resolved);
  // Begins with the next address that lets it; none is left: the stream ends.
  void ConnectNext();
  bool Connect(const SocketAddress& address);
  void WaitForAddress();
  void StopWaiting();
  void OnConnected();
  // The rest may have destroyed this object: nothing is touched after them.
  void ContinueHandshake();
  void Opened();
  void Read();
  Went Flush();
  Went FlushTls();
  void End(std::string why);  // told at the turn's end
  void EndNow(std::string_view why);

  void CloseSocket();
  void WaitFor(uint32_t events);
  void AskForTurnEnd();

  // Constant after construction.
  LoopImpl& loop_;
  const std::shared_ptr<Mailbox> mailbox_;
  TlsClient& tls_client_;
  const DialTarget target_;
  StreamHandler& handler_;
  const std::shared_ptr<OutStream*> self_;  // null in it: destroyed. For the answer of the resolver

  std::vector<IpAddress> addresses_;
  size_t next_address_ = 0;
  uint64_t address_timer_ = 0;  // 0: none
  std::string why_;             // why the last address failed, or the stream ended
  std::unique_ptr<TlsStream> tls_;
  int fd_ = -1;
  State state_ = State::kResolving;
  uint32_t events_ = 0;        // what the loop tells of
  bool blocked_ = false;       // output waits for room
  bool cannot_write_ = false;  // the connection has failed; what it still has to read comes first
  bool in_turn_end_ = false;   // the loop will call OnTurnEnd
  bool ending_ = false;        // there is an end to be told
  bool read_more_ = false;     // TLS: bytes are there that the socket will not tell of
  // Invariant: output_[sent_, size) is still to be given to the kernel.
  std::string output_;
  size_t sent_ = 0;
};

}  // namespace penstock::net
