// The right to keep a snapshot under a path: two that write one path would destroy each other's last good file. It is
// an exclusive flock on PATH.lock, which the system takes back when the process ends, however it ends; the file itself
// stays, since removing it would let two holders lock two files of one name. Whoever takes it also learns at start, and
// not at the first save, that the folder is there and can be written to.
//
// Thread contract: one thread at a time. A forked child shares the lock until it calls exec or ends.
#pragma once

#include <string>

#include "base/result.h"

namespace penstock::engine {

class SnapshotLock {
 public:
  // kConflict: held by someone, be it in this process; kUnavailable: the folder or the lock file cannot be used.
  static Result<SnapshotLock> Take(const std::string& path);

  SnapshotLock(SnapshotLock&& other) noexcept;
  SnapshotLock& operator=(SnapshotLock&& other) noexcept;
  ~SnapshotLock();

 private:
  explicit SnapshotLock(int fd) : fd_(fd) {}

  int fd_;  // -1: moved from
};

}  // namespace penstock::engine
