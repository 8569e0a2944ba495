#include "engine/memory/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace penstock::engine {

Error AtomicFile::Failed(std::string_view what) const {
  return {ErrorKind::kUnavailable,
          std::string(what) + " " + temporary_ + ": " + std::generic_category().message(errno)};
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

Result<void> AtomicFile::Open() {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd_ < 0) return tl::unexpected(Failed("cannot create"));
  return {};
}

Result<void> AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return tl::unexpected(Failed("cannot write"));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<void> AtomicFile::Commit() {
  if (fsync(fd_) != 0) return tl::unexpected(Failed("cannot bring to the disk"));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return tl::unexpected(Failed("cannot rename"));
  close(fd_);
  fd_ = -1;
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return tl::unexpected(Failed("cannot open the folder of"));
  const int synced = fsync(fd);
  const int error = errno;
  close(fd);
  errno = error;
  if (synced != 0) return tl::unexpected(Failed("cannot bring to the disk the folder of"));
  return {};
}

}  // namespace penstock::engine
