// What the algorithms have in common. Each is a struct of static pure functions with the same names, so that group.cc
// is written once and Dispatch (dispatch.h) is the only place that knows them all:
//
//   Advance      the bucket as of now under the parameters it was stored with
//   SameMeaning  whether a state means the same under both parameters, so that there is nothing to convert
//   FadesAlike   whether it also fades at the same instants (a finer tick of a window only bounds what it holds)
//   Convert      the same use under other parameters (rule E6)
//   Fits         whether a cost of 0 to capacity is admitted now; monotone: less fits where more does
//   FitsAt       the first instant at which it is, if nobody else comes (called only where it does not fit)
//   Available    the largest cost that fits, 0 to capacity
//   Take         charges, held at the largest exact number if need be
//   GiveBack     a refund; floors at no use
//   Adjust       changes an earlier charge (rules E4 and E10)
//   IdleAt       the instant from which the bucket is the same as an absent one
//
// kKeepsInstants says that the state remembers instants and not what parameters made of them (the log).
// Advance, Convert, Take, GiveBack and Adjust work on `edit.state` (a log: on its runs too).
#pragma once

#include <cstdint>

#include "base/time.h"
#include "core/operation.h"
#include "core/params.h"

namespace penstock::core {

struct Scene {
  const LimitParams& params;  // of the limit that decides
  EngineTime now;
  const WindowBoundaries* boundaries;  // calendar windows only
  const BucketView& bucket;            // as stored
  const PermitAsk* permit = nullptr;   // permits only; null: a limit's own lease
  EngineTime granted_from{};           // permits only
};

}  // namespace penstock::core
