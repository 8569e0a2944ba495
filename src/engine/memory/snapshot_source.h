// Where a snapshot's bytes come from: a file, or memory in tests.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::engine::snapshot {

class Source {
 public:
  virtual ~Source() = default;
  // As many of `size` bytes as there are, less only at the end; nullopt: reading failed, `errno` says why.
  virtual std::optional<size_t> Read(char* out, size_t size) = 0;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::optional<size_t> Read(char* out, size_t size) override {
    const size_t count = bytes_.copy(out, size);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
};

class FileSource final : public Source {
 public:
  // Not blocking: opening a FIFO would wait for its writer.
  explicit FileSource(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~FileSource() override {
    if (fd_ >= 0) close(fd_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  bool is_open() const { return fd_ >= 0; }
  bool is_regular() const {
    struct stat status {};
    return fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  }
  std::optional<size_t> Read(char* out, size_t size) override {
    size_t have = 0;
    while (have < size) {
      const ssize_t got = read(fd_, out + have, size - have);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return std::nullopt;
      if (got == 0) break;
      have += static_cast<size_t>(got);
    }
    return have;
  }

 private:
  const int fd_;
};

}  // namespace penstock::engine::snapshot
