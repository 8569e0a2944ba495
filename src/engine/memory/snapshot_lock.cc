#include "engine/memory/snapshot_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace penstock::engine {

Result<SnapshotLock> SnapshotLock::Take(const std::string& path) {
  const auto failed = [&path](const std::string& what) {
    return Fail(ErrorKind::kUnavailable,
                "snapshot " + path + ": " + what + ": " + std::generic_category().message(errno));
  };
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // A lock file that is there already can be opened where no new file can be created.
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return failed("cannot write to the folder " + folder);
  }
  const std::string name = path + ".lock";
  const int fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (fd < 0) return failed("cannot open " + name);
  SnapshotLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed("cannot lock " + name);
    return Fail(ErrorKind::kConflict, "the snapshot " + path + " is in use by another process");
  }
  return lock;
}

SnapshotLock::SnapshotLock(SnapshotLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SnapshotLock& SnapshotLock::operator=(SnapshotLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

SnapshotLock::~SnapshotLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace penstock::engine
