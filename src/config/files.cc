#include "config/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "policy/yaml.h"

namespace penstock::config {
namespace {

constexpr int kMaxSwapRetries = 3;
constexpr size_t kMaxDirectoryEntries = 100'000;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string Why(const std::string& path, int error) { return path + ": " + std::strerror(error); }

tl::unexpected<Error> FailErrno(const std::string& path, int error) {
  return Fail(error == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable, Why(path, error));
}

bool SameContent(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Where ..data leads now; empty without one.
std::string DataLink(const std::string& directory) {
  char target[4096];
  const ssize_t size = readlink((directory + "/..data").c_str(), target, sizeof target);
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : std::string();
}

Result<std::vector<std::string>> PolicyFileNames(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(directory.c_str()), closedir);
  if (handle == nullptr) return FailErrno(directory, errno);
  std::vector<std::string> names;
  size_t entries = 0;
  while (const dirent* entry = readdir(handle.get())) {
    if (++entries > kMaxDirectoryEntries)
      return Fail(ErrorKind::kTooLarge,
                  directory + ": more than " + std::to_string(kMaxDirectoryEntries) + " entries");
    if (IsPolicyFileName(entry->d_name)) names.emplace_back(entry->d_name);
  }
  if (names.size() > kMaxPolicyFiles)
    return Fail(ErrorKind::kTooLarge,
                directory + ": more than " + std::to_string(kMaxPolicyFiles) + " policy files");
  if (names.empty()) return Fail(ErrorKind::kNotFound, directory + ": no *.yaml or *.yml in this folder");
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<FileText>> ReadDirectory(const std::string& directory) {
  const auto names = PolicyFileNames(directory);
  if (!names) return tl::unexpected(names.error());
  std::vector<FileText> out;
  std::set<std::pair<dev_t, ino_t>> seen;
  size_t total = 0;
  for (const std::string& name : *names) {
    std::string path = directory;
    path += '/';
    path += name;
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return FailErrno(path, errno);
    if (!seen.emplace(info.st_dev, info.st_ino).second) continue;
    auto text = ReadFileBounded(path, policy::kMaxYamlBytes);
    if (!text) return tl::unexpected(text.error());
    total += text->size();
    if (total > kMaxPolicyBytes)
      return Fail(ErrorKind::kTooLarge, directory + ": more than " +
                                            std::to_string(kMaxPolicyBytes / policy::kMiB) +
                                            " MiB of policy files");
    out.push_back({std::move(path), std::move(*text)});
  }
  return out;
}

}  // namespace

bool IsPolicyFileName(std::string_view name) {
  return !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml"));
}

Result<std::string> ReadFileBounded(const std::string& path, size_t max_bytes) {
  // Not blocked by a pipe without a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat before {};
  if (file.get() < 0 || fstat(file.get(), &before) != 0) return FailErrno(path, errno);
  if (!S_ISREG(before.st_mode)) return Invalid(path + ": no regular file");
  if (before.st_size > static_cast<off_t>(max_bytes)) {
    return Fail(ErrorKind::kTooLarge, path + ": larger than " + std::to_string(max_bytes) + " bytes");
  }
  std::string text(static_cast<size_t>(before.st_size), '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  struct stat after {};
  if (fstat(file.get(), &after) != 0) return FailErrno(path, errno);
  if (size != text.size() || !SameContent(before, after)) {
    return Fail(ErrorKind::kUnavailable, path + ": it changed while it was read");
  }
  return text;
}

Result<std::vector<FileText>> ReadPolicyFiles(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return FailErrno(path, errno);
  if (!S_ISDIR(info.st_mode)) {
    auto text = ReadFileBounded(path, policy::kMaxYamlBytes);
    if (!text) return tl::unexpected(text.error());
    std::vector<FileText> out;
    out.push_back({path, std::move(*text)});
    return out;
  }
  for (int attempt = 0;; ++attempt) {
    const std::string link = DataLink(path);
    auto files = ReadDirectory(path);
    if (DataLink(path) == link || attempt == kMaxSwapRetries) return files;
  }
}

}  // namespace penstock::config
