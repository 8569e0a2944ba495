// Signals as things that the main thread waits for, instead of interruptions that come anywhere.
//
// Thread contract: Block() in main before any other thread starts (they inherit it); Wait() on the main thread.
#pragma once

#include "base/time.h"

namespace penstock::server {

enum class Signal : unsigned char { kNone, kReload, kStop };

void BlockSignals();
// The next SIGHUP (reload), SIGTERM or SIGINT (stop); none after `at_most`.
Signal WaitForSignal(Micros at_most);

}  // namespace penstock::server
