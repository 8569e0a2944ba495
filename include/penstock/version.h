// The release of the library that a program runs with.
#pragma once

#include "penstock/export.h"

namespace penstock {

// "major.minor.patch"; of the library that is loaded, not of the headers. Before 1.0 every minor release may break.
PENSTOCK_EXPORT const char* Version();

}  // namespace penstock
