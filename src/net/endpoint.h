// Sockets that listen on an endpoint (base/endpoint.h).
//
// Thread contract: plain functions, for any thread.
#pragma once

#include "base/endpoint.h"
#include "base/result.h"

namespace penstock::net {

// A listening socket for the endpoint: non-blocking, close-on-exec, shared by SO_REUSEPORT. The caller owns it.
Result<int> OpenListeningSocket(const Endpoint& endpoint);

// Fails if anybody listens there already (which SO_REUSEPORT alone would hide from us when it is the same user), and
// fills in a free port for 0.
Result<Endpoint> ReserveEndpoint(const Endpoint& endpoint);

}  // namespace penstock::net
