// The flags of `serve` on a CLI11 command; penstock-testserver has the same ones.
#pragma once

#include "serve.h"

namespace CLI {
class App;
}

namespace penstock::app {

void AddServeFlags(CLI::App& command, ServeFlags& flags);

}  // namespace penstock::app
