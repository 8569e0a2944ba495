#include "net/dialer.h"

#include <memory>

#include "net/out_stream.h"

namespace penstock::net {
namespace {

class LoopDialer final : public Dialer {
 public:
  explicit LoopDialer(LoopImpl& loop) : loop_(loop), mailbox_(std::make_shared<Mailbox>(loop)) {}
  ~LoopDialer() override { mailbox_->Close(); }
  LoopDialer(const LoopDialer&) = delete;
  LoopDialer& operator=(const LoopDialer&) = delete;

  std::unique_ptr<Stream> Dial(const DialTarget& target, StreamHandler& handler) override {
    auto stream = std::make_unique<OutStream>(loop_, mailbox_, tls_client_, target, handler);
    stream->Start();
    return stream;
  }

 private:
  LoopImpl& loop_;
  const std::shared_ptr<Mailbox> mailbox_;
  TlsClient tls_client_;
};

}  // namespace

std::unique_ptr<Dialer> NewDialer(Loop& loop) { return std::make_unique<LoopDialer>(loop.impl()); }

}  // namespace penstock::net
