// A file that is replaced as a whole or not at all: bytes go to a temporary beside it, which takes its name once
// everything is on the disk. A process that dies meanwhile leaves the old file, and at most the temporary.
//
// Thread contract: one thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::engine {

class AtomicFile {
 public:
  explicit AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {}
  // Without Commit the temporary is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Readable by its owner only.
  Result<void> Open();
  Result<void> Write(std::string_view bytes);
  // Brings the bytes to the disk, then the name.
  Result<void> Commit();

 private:
  Error Failed(std::string_view what) const;

  const std::string path_;
  const std::string temporary_;
  int fd_ = -1;
};

}  // namespace penstock::engine
