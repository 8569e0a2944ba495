#include "base/dialer.h"

namespace penstock {

std::string DialTarget::Text() const {
  if (!path.empty()) return path;
  const bool bracketed = host.find(':') != std::string::npos;
  return (bracketed ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

}  // namespace penstock
