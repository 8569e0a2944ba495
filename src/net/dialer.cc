#include "net/dialer.h"

#include <memory>
#include <utility>

#include "net/out_stream.h"

namespace penstock::net {
namespace {

class LoopDialer final : public Dialer {
 public:
  LoopDialer(LoopImpl& loop, ResolveFunction resolve)
      : loop_(loop), resolve_(std::move(resolve)), mailbox_(std::make_shared<Mailbox>(loop)) {}
  ~LoopDialer() override { mailbox_->Close(); }
  LoopDialer(const LoopDialer&) = delete;
  LoopDialer& operator=(const LoopDialer&) = delete;

  std::unique_ptr<Stream> Dial(const DialTarget& target, StreamHandler& handler) override {
    auto stream = std::make_unique<OutStream>(loop_, mailbox_, tls_client_, target, handler);
    stream->Start(resolve_);
    return stream;
  }

 private:
  LoopImpl& loop_;
  const ResolveFunction resolve_;
  const std::shared_ptr<Mailbox> mailbox_;
  TlsClient tls_client_;
};

}  // namespace

std::unique_ptr<Dialer> NewDialer(Loop& loop, ResolveFunction resolve) {
  return std::make_unique<LoopDialer>(loop.impl(), std::move(resolve));
}

}  // namespace penstock::net
