// `penstock run`: holds a permit while a command runs.
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "child_process.h"
#include "commands.h"
#include "permit_client.h"
#include "permit_keeper.h"

namespace penstock::app {
namespace {

constexpr int kSignalled = 128;
constexpr int64_t kReleaseForMs = 3'000;  // how long it is tried, and between two attempts
constexpr int64_t kReleasePauseMs = 200;
constexpr size_t kMaxHostName = 64;

void Say(const std::string& words) { std::fprintf(stderr, "penstock: %s\n", words.c_str()); }

// What we would die of, as something to poll for; what is ignored stays so, for us and for the command.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&caught_);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM}) {
      struct sigaction now {};
      ::sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN) ::sigaddset(&caught_, signal);
    }
    ::sigprocmask(SIG_BLOCK, &caught_, &before_);
    fd_ = ::signalfd(-1, &caught_, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() { ::close(fd_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  const sigset_t& before() const { return before_; }
  // From here on the end of a child, too.
  void WatchChildren() {
    ::sigaddset(&caught_, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &caught_, nullptr);
    ::signalfd(fd_, &caught_, 0);
  }
  std::optional<signalfd_siginfo> Next() const {
    signalfd_siginfo info{};
    if (::read(fd_, &info, sizeof info) != sizeof info) return std::nullopt;
    return info;
  }

 private:
  sigset_t caught_{};
  sigset_t before_{};
  int fd_ = -1;
};

// Who holds it, for `penstock holders`: this process.
std::string OwnName() {
  std::array<char, kMaxHostName + 1> host{};
  ::gethostname(host.data(), kMaxHostName);
  return std::string(host.data()) + "/" + std::to_string(::getpid());
}

struct Grant {
  PermitAnswer answer;
  SteadyTime asked_at;
};

// The permit is the command's while this lives.
class Tenure {
 public:
  Tenure(const PermitClient& client, const Grant& grant, int64_t lease_ms) : client_(client), grant_(grant) {
    if (grant.answer.id.empty()) return;
    const HeldPermit permit(grant.asked_at, Millis(grant.answer.waited_ms),
                            Millis(grant.answer.expires_in_ms));
    keeper_ = std::make_unique<PermitKeeper>(permit, [this, lease_ms](int timeout_ms, int cancel_fd) {
      return client_.Renew(grant_.answer.id, lease_ms, timeout_ms, cancel_fd);
    });
  }

  // -1: there is nothing to lose.
  int loss_fd() const { return keeper_ == nullptr ? -1 : keeper_->loss_fd(); }

  std::string Loss() const {
    switch (keeper_->permit().loss()) {
      case HeldPermit::Loss::kExpired:
        return "its lease ran out";
      case HeldPermit::Loss::kUnknown:
        return "the server knows it no more";
      case HeldPermit::Loss::kSilence:
      case HeldPermit::Loss::kNone:
        break;
    }
    const std::string trouble = keeper_->trouble();
    return "it could not be renewed in time" + (trouble.empty() ? "" : ", " + trouble);
  }

  // What was lost by the server's word is not given back; what nobody could be asked about may still be there.
  void GiveBack() {
    if (keeper_ == nullptr) return;
    const HeldPermit permit = keeper_->permit();
    keeper_.reset();
    if (permit.loss() == HeldPermit::Loss::kExpired || permit.loss() == HeldPermit::Loss::kUnknown) return;
    const SteadyTime until = BootTime() + Millis(permit.held() ? kReleaseForMs : kReleasePauseMs);
    std::string why;
    for (;;) {
      const int64_t left_ms = CeilMillis(until - BootTime());
      if (left_ms <= 0) return Say("the permit could not be given back and ends with its lease: " + why);
      const Result<PermitFateAnswer> answer = client_.Release(grant_.answer.id, static_cast<int>(left_ms));
      // The server goes on trying by itself where it could not ask its engine.
      if (answer && answer->fate != core::PermitFate::kUnavailable) {
        if (answer->fate != core::PermitFate::kReleased && permit.held())
          Say("when it was given back the permit was " + std::string(core::ToString(answer->fate)));
        return;
      }
      why = answer ? "the server cannot ask its engine" : answer.error().message;
      if (answer || answer.error().kind != ErrorKind::kUnavailable)
        return Say("the permit could not be given back and ends with its lease at the latest: " + why);
      ::poll(nullptr, 0, static_cast<int>(std::min(kReleasePauseMs, left_ms)));
    }
  }

 private:
  const PermitClient& client_;
  const Grant& grant_;
  std::unique_ptr<PermitKeeper> keeper_;
};

class Supervision {
 public:
  Supervision(const RunFlags& flags, int64_t grace_ms, Signals& signals, Tenure& tenure, ChildProcess& child)
      : kills_(flags.on_loss == "kill"),
        grace_ms_(grace_ms),
        signals_(signals),
        tenure_(tenure),
        child_(child),
        loss_fd_(tenure.loss_fd()) {}

  // Until the command has ended; its exit code.
  int Watch() {
    for (;;) {
      if (const std::optional<int> code = child_.ExitCode()) return *code;
      std::array<pollfd, 2> fds{pollfd{signals_.fd(), POLLIN, 0}, pollfd{loss_fd_, POLLIN, 0}};
      ::poll(fds.data(), fds.size(), TimeoutMs());
      while (const auto info = signals_.Next()) {
        if (info->ssi_signo != SIGCHLD) {
          child_.Forward(static_cast<int>(info->ssi_signo), info->ssi_code == SI_KERNEL);
        }
      }
      if (fds[1].revents != 0) Lost();
      if (kill_at_ && BootTime() >= *kill_at_) {
        kill_at_.reset();
        Say("the command did not end in time and is killed");
        child_.End(SIGKILL);
      }
    }
  }

 private:
  int TimeoutMs() const {
    if (!kill_at_) return -1;
    return static_cast<int>(std::max<int64_t>(CeilMillis(*kill_at_ - BootTime()), 0));
  }

  void Lost() {
    loss_fd_ = -1;  // once
    Say("the permit is lost: " + tenure_.Loss() +
        (kills_ ? "; the command is ended" : "; the command goes on without"));
    if (!kills_) return;
    child_.End(SIGTERM);
    child_.End(SIGCONT);  // a stopped one hears of it, too
    kill_at_ = BootTime() + Millis(grace_ms_);
  }

  const bool kills_;
  const int64_t grace_ms_;
  Signals& signals_;
  Tenure& tenure_;
  ChildProcess& child_;
  int loss_fd_;
  std::optional<SteadyTime> kill_at_;
};

tl::expected<ChildProcess, ChildProcess::Failure> Start(const RunFlags& flags, Signals& signals,
                                                        const PermitAnswer& held) {
  ChildOptions options;
  options.command = flags.command;
  options.signal_mask = signals.before();
  options.ends_with_us = flags.on_loss == "kill";
  if (!held.id.empty()) options.environment.emplace_back("PENSTOCK_PERMIT", held.id);
  if (held.fence) options.environment.emplace_back("PENSTOCK_FENCE", std::to_string(*held.fence));
  signals.WatchChildren();
  return ChildProcess::Start(options);
}

}  // namespace

int RunRun(const RunFlags& flags) {
  if (flags.command.empty()) return Complain(kExitUsage, "say what to run, after --");
  const Result<int64_t> grace_ms = FlagMillis("--grace", flags.grace);
  if (!grace_ms) return ComplainOf(grace_ms.error());
  PermitFlags asked = flags.permit;
  if (asked.holder.empty()) asked.holder = OwnName();
  const Result<std::string> body = AcquireBody(asked);
  if (!body) return ComplainOf(body.error());
  const Result<PermitClient> client = PermitClient::Of(asked.server);
  if (!client) return ComplainOf(client.error());
  const int64_t wait_ms = *FlagMillis("--wait", asked.wait);
  const int64_t lease_ms = *FlagMillis("--lease", asked.lease);

  Signals signals;
  Grant grant{.answer = {}, .asked_at = BootTime()};
  Result<PermitAnswer> answer = client->Acquire(*body, wait_ms, signals.fd());
  if (!answer) {
    const auto signal = signals.Next();
    return signal ? kSignalled + static_cast<int>(signal->ssi_signo) : ComplainOf(answer.error());
  }
  grant.answer = *std::move(answer);
  if (!grant.answer.allowed) return SayRefusal(grant.answer);
  if (!SayWhatIsHeld(grant.answer)) return kExitUsage;
  tl::expected<ChildProcess, ChildProcess::Failure> child = Start(flags, signals, grant.answer);
  Tenure tenure(*client, grant, lease_ms);
  const int code = child ? Supervision(flags, *grace_ms, signals, tenure, *child).Watch()
                         : Complain(child.error().exit_code, child.error().message);
  tenure.GiveBack();
  return code;
}

}  // namespace penstock::app
