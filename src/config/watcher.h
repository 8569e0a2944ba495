// Tells when the policy's file or folder has changed: by inotify on the folders in which a name on the way to the file
// stands, so a save by rename, a link that is turned and a ConfigMap's ..data swap are all seen.
//
// Whoever owns the event loop polls fd() for reading and calls OnReadable, waits until deadline(), and reloads when
// TakeDue says so. Thread contract: one thread; nothing here blocks but the short look at the folders.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "config/reload_timer.h"

namespace penstock::config {

class Watcher {
 public:
  // `path` is the policy's file or folder, and exists.
  static Result<std::unique_ptr<Watcher>> Open(std::string path);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  int fd() const { return fd_; }
  // Reads what is there.
  void OnReadable(SteadyTime now);
  std::optional<SteadyTime> deadline() const { return timer_.deadline(); }
  // True once after a change and its quiet: time to reload. Looks anew where the links lead.
  bool TakeDue(SteadyTime now);
  // Watches what is on the way to the path now; what is watched already stays so. For a reload that TakeDue did not
  // ask for: call it before the files are read, so that no change falls in between.
  void Rearm();

 private:
  // The names that matter in one watched folder; `all_policies`: every policy file too.
  struct Folder {
    std::string path;
    std::vector<std::string> names;
    bool all_policies = false;
  };

  explicit Watcher(std::string path) : path_(std::move(path)) {}
  Result<void> Arm();
  void OnEvent(int watch, uint32_t mask, std::string_view name, SteadyTime now);
  bool IsLink(const Folder& folder, std::string_view name) const;

  const std::string path_;
  int fd_ = -1;
  std::map<int, Folder> folders_;  // by watch descriptor
  bool new_folder_ = false;        // a folder on the way has come, and is not watched yet
  ReloadTimer timer_;
};

// The folders and names on the way to `path`: its own and, where it is a link, those of what it leads to, at most
// kMaxLinks of them.
inline constexpr int kMaxLinks = 8;
std::vector<std::pair<std::string, std::string>> LinkChain(const std::string& path);

}  // namespace penstock::config
