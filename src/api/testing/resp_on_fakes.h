// The RESP commands on a session without a socket, with a decider and desks that answer as the test says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "api/resp_api.h"
#include "api/testing/fake_decider.h"
#include "base/clock.h"

namespace penstock::api {

class RespOnFakes : public ::testing::Test {
 protected:
  // Sends commands, inline or as bytes, as one read batch.
  std::string Send(std::string_view bytes) {
    const std::span<char> space = session_.ReceiveSpace();
    std::copy(bytes.begin(), bytes.end(), space.begin());
    session_.Received(bytes.size());
    for (;;) {
      resp::Action action = session_.Next();
      auto* command = std::get_if<resp::Command>(&action);
      if (command == nullptr) break;
      api_.Handle(*command, {&session_, &peer_, command->ticket});
    }
    api_.Flush();
    return TakeOutput();
  }
  std::string TakeOutput() {
    std::string out(session_.Output());
    if (!out.empty()) session_.Written(out.size());
    return out;
  }
  void SetUp() override { session_.Open(1, "127.0.0.1:1"); }

  FakeDecider decider_;
  ManualClock clock_{{1'000'000}};
  resp::SessionOptions session_options_;
  resp::Session session_{session_options_};
  FakePeer peer_;
  RespApi api_{decider_, clock_};
};

}  // namespace penstock::api
