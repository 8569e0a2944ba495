// Which symbols libpenstock.so shows. Everything else in it is hidden.
#pragma once

#if defined(__GNUC__)
#define PENSTOCK_EXPORT __attribute__((visibility("default")))
#else
#define PENSTOCK_EXPORT
#endif
