// Prints what is made from the table of options, for the committed copies:
//   policy_reference page > docs/policy-reference.md
//   policy_reference sample > examples/policy.yaml
#include <cstdio>
#include <cstring>

#include "policy/reference.h"

int main(int argc, char** argv) {
  const bool page = argc == 2 && std::strcmp(argv[1], "page") == 0;
  const bool sample = argc == 2 && std::strcmp(argv[1], "sample") == 0;
  if (!page && !sample) {
    std::fputs("usage: policy_reference page|sample\n", stderr);
    return 2;
  }
  std::fputs((page ? penstock::policy::ReferencePage() : penstock::policy::SamplePolicy()).c_str(), stdout);
  return 0;
}
