// The control socket of penstock-testserver: a TCP port of the loopback on which a test moves the server's clock.
//
//   SET us      the clock shows so many microseconds since the epoch (it may go back)
//   ADVANCE us  it moves on by so many (or back, if negative)
//   NOW         what it shows
//
// Every line is answered by the microseconds the clock shows then, or by `error …`. An answered move holds for every
// request that comes after the answer.
//
// Thread contract: a thread of its own; the constructor's and destructor's caller is the main thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "net/endpoint.h"

namespace penstock::app {

class Control {
 public:
  // `moved` is called on the control's thread after every move. The clock outlives the control.
  static Result<std::unique_ptr<Control>> Start(ManualClock& clock, std::function<void()> moved);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Control(ManualClock& clock, std::function<void()> moved, int fd, const Endpoint& endpoint, int stop_fd);

  void Run();
  void Serve(int fd);
  std::string Answer(std::string_view line);
  // False when the control is to stop.
  bool WaitFor(int fd) const;

  ManualClock& clock_;
  const std::function<void()> moved_;
  const int fd_;
  const Endpoint endpoint_;
  const int stop_fd_;  // an eventfd that becomes readable at the end
  std::thread thread_;
};

}  // namespace penstock::app
