// Outgoing streams on an event loop: TCP over IPv4 and IPv6, Unix sockets, TLS on either.
//
// Thread contract: as base/dialer.h says. The dialer is destroyed before its loop and after its streams, and not while
// the loop runs on another thread.
#pragma once

#include <memory>

#include "base/dialer.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::net {

// `resolve` is another one in tests alone.
std::unique_ptr<Dialer> NewDialer(Loop& loop, ResolveFunction resolve = Resolve);

}  // namespace penstock::net
