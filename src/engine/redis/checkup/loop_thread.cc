#include "engine/redis/checkup/loop_thread.h"

#include <future>

#include "net/dialer.h"

namespace penstock::checkup {

LoopThread::LoopThread(const Clock& clock)
    : clock_(clock), loop_(clock), dialer_(net::NewDialer(loop_)), thread_([this] { loop_.Run(); }) {}

LoopThread::~LoopThread() {
  loop_.Stop();
  thread_.join();
}

void LoopThread::Run(const std::function<void()>& task) {
  std::promise<void> done;
  loop_.Post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace penstock::checkup
