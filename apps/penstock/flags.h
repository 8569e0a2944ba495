// The command line. The only place that knows CLI11.
#pragma once

namespace penstock::app {

// Parses the command line of `penstock` and runs the command; the exit code.
int RunCommandLine(int argc, char** argv);

}  // namespace penstock::app
