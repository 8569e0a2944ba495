#include "control.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/bytes.h"

namespace penstock::app {
namespace {

constexpr size_t kMaxLine = 200;

}  // namespace

Result<std::unique_ptr<Control>> Control::Start(ManualClock& clock, std::function<void()> moved) {
  const Result<Endpoint> endpoint = net::ReserveEndpoint({IpAddress::V4(0x7f000001), 0});
  if (!endpoint) return tl::unexpected(endpoint.error());
  const Result<int> fd = net::OpenListeningSocket(*endpoint);
  if (!fd) return tl::unexpected(fd.error());
  const int stop_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) {
    ::close(*fd);
    return Fail(ErrorKind::kUnavailable, "no file descriptor for the control's end");
  }
  return std::unique_ptr<Control>(new Control(clock, std::move(moved), *fd, *endpoint, stop_fd));
}

Control::Control(ManualClock& clock, std::function<void()> moved, int fd, const Endpoint& endpoint,
                 int stop_fd)
    : clock_(clock), moved_(std::move(moved)), fd_(fd), endpoint_(endpoint), stop_fd_(stop_fd) {
  thread_ = std::thread([this] { Run(); });
}

Control::~Control() {
  const uint64_t one = 1;
  // It can only fail when it is readable already, and then the thread ends as well.
  [[maybe_unused]] const ssize_t written = ::write(stop_fd_, &one, sizeof one);
  thread_.join();
  ::close(fd_);
  ::close(stop_fd_);
}

bool Control::WaitFor(int fd) const {
  std::array<pollfd, 2> fds{pollfd{fd, POLLIN, 0}, pollfd{stop_fd_, POLLIN, 0}};
  while (::poll(fds.data(), fds.size(), -1) < 0) {
  }
  return fds[1].revents == 0;
}

// One test at a time moves the clock; another waits in the backlog.
void Control::Run() {
  while (WaitFor(fd_)) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    Serve(fd);
    ::close(fd);
  }
}

void Control::Serve(int fd) {
  std::string input;
  while (WaitFor(fd)) {
    std::array<char, 4'096> buffer;
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n <= 0) return;
    input.append(buffer.data(), static_cast<size_t>(n));
    for (size_t end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
      const std::string answer = Answer(std::string_view(input).substr(0, end)) + "\n";
      input.erase(0, end + 1);
      if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
    }
    if (input.size() > kMaxLine) return;
  }
}

std::string Control::Answer(std::string_view line) {
  const size_t space = line.find(' ');
  const std::string_view verb = line.substr(0, space);
  if (verb == "SET" || verb == "ADVANCE") {
    const std::optional<int64_t> us = ParseInt(space == std::string_view::npos ? "" : line.substr(space + 1));
    if (!us) return "error: a number of microseconds is missing";
    clock_.Set(verb == "SET" ? EngineTime{*us} : clock_.Now() + Micros{*us});
    moved_();
  } else if (line != "NOW") {
    return "error: SET us, ADVANCE us or NOW";
  }
  return std::to_string(clock_.Now().us);
}

}  // namespace penstock::app
