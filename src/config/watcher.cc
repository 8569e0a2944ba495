#include "config/watcher.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "config/files.h"

namespace penstock::config {
namespace {

constexpr uint32_t kInterest = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE |
                               IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF;
constexpr const char* kDataLink = "..data";
// One call reads at most this many buffers; the rest makes the descriptor readable again.
constexpr int kMaxReads = 64;

std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> LinkChain(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> out;
  std::string at = WithoutTrailingSlash(path);
  for (int i = 0; i < kMaxLinks; ++i) {
    out.push_back(Split(at));
    char target[4096];
    const ssize_t size = readlink(at.c_str(), target, sizeof target);
    if (size <= 0 || static_cast<size_t>(size) == sizeof target) break;
    const std::string next(target, static_cast<size_t>(size));
    at = WithoutTrailingSlash(next[0] == '/' ? next : out.back().first + "/" + next);
  }
  return out;
}

Result<std::unique_ptr<Watcher>> Watcher::Open(std::string path) {
  std::unique_ptr<Watcher> watcher(new Watcher(std::move(path)));
  watcher->fd_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watcher->fd_ < 0) {
    return Fail(ErrorKind::kUnavailable, std::string("cannot watch files: ") + std::strerror(errno));
  }
  if (auto armed = watcher->Arm(); !armed) return tl::unexpected(armed.error());
  return watcher;
}

Watcher::~Watcher() {
  if (fd_ >= 0) close(fd_);
}

Result<void> Watcher::Arm() {
  std::map<int, Folder> armed;
  Result<void> result;
  const auto watch = [&](const std::string& folder, const std::string& name, bool all_policies) {
    const int descriptor = inotify_add_watch(fd_, folder.c_str(), kInterest);
    if (descriptor < 0) {
      result = Fail(ErrorKind::kUnavailable, "cannot watch " + folder + ": " + std::strerror(errno));
      return;
    }
    Folder& entry = armed[descriptor];  // one descriptor a folder, however it is named
    entry.path = folder;
    if (!name.empty()) entry.names.push_back(name);
    entry.names.push_back(kDataLink);
    entry.all_policies |= all_policies;
  };
  for (const auto& [folder, name] : LinkChain(path_)) watch(folder, name, false);
  struct stat info {};
  if (stat(path_.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) watch(path_, "", true);
  for (const auto& [descriptor, folder] : folders_) {
    if (!armed.contains(descriptor)) inotify_rm_watch(fd_, descriptor);
  }
  folders_ = std::move(armed);
  return result;
}

bool Watcher::IsLink(const Folder& folder, std::string_view name) const {
  struct stat info {};
  return lstat((folder.path + "/" + std::string(name)).c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

void Watcher::OnEvent(int watch, uint32_t mask, std::string_view name, SteadyTime now) {
  if ((mask & IN_Q_OVERFLOW) != 0) {
    timer_.OnEvent(FileEvent::kComplete, now);
    return;
  }
  const auto found = folders_.find(watch);
  if (found == folders_.end()) return;
  const Folder& folder = found->second;
  if ((mask & (IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED)) != 0) {
    timer_.OnEvent(FileEvent::kComplete, now);
    return;
  }
  const bool named = std::find(folder.names.begin(), folder.names.end(), name) != folder.names.end();
  if (!named && !(folder.all_policies && IsPolicyFileName(name))) return;
  // A folder that has come back is another one, which nothing watches yet, and no close of it will ever come.
  if (named && (mask & IN_ISDIR) != 0 && (mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    new_folder_ = true;
    timer_.OnEvent(FileEvent::kComplete, now);
    return;
  }
  // A new file is complete when it is closed; a new link is complete at once.
  const bool touched = (mask & IN_MODIFY) != 0 || ((mask & IN_CREATE) != 0 && !IsLink(folder, name));
  timer_.OnEvent(touched ? FileEvent::kTouched : FileEvent::kComplete, now);
}

void Watcher::OnReadable(SteadyTime now) {
  alignas(inotify_event) char buffer[16 * 1024];
  for (int i = 0; i < kMaxReads; ++i) {
    const ssize_t size = read(fd_, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      // The name is padded with zeros.
      const std::string_view name(event->len > 0 ? event->name : "",
                                  event->len > 0 ? std::strlen(event->name) : 0);
      OnEvent(event->wd, event->mask, name, now);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  // Once, however many came: what is written into it from here on puts the reload off.
  if (std::exchange(new_folder_, false)) Rearm();
}

bool Watcher::TakeDue(SteadyTime now) {
  if (!timer_.TakeDue(now)) return false;
  Rearm();
  return true;
}

void Watcher::Rearm() {
  // Where this fails (a folder is gone) the folders that are left are still watched, and the reload names the reason.
  (void)Arm();
}

}  // namespace penstock::config
