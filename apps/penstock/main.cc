#include "flags.h"

int main(int argc, char** argv) { return penstock::app::RunCommandLine(argc, argv); }
