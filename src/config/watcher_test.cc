#include "config/watcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace penstock::config {
namespace {

namespace fs = std::filesystem;

constexpr SteadyTime kStart{1'000'000};

TEST(ReloadTimer, WaitsForQuietAfterTheLastEvent) {
  ReloadTimer timer;
  EXPECT_FALSE(timer.deadline());
  EXPECT_FALSE(timer.TakeDue(kStart));
  timer.OnEvent(FileEvent::kComplete, kStart);
  EXPECT_EQ(timer.deadline(), kStart + Millis(200));
  timer.OnEvent(FileEvent::kComplete, kStart + Millis(150));
  EXPECT_FALSE(timer.TakeDue(kStart + Millis(349)));
  EXPECT_TRUE(timer.TakeDue(kStart + Millis(350)));
  EXPECT_FALSE(timer.TakeDue(kStart + Millis(351)));
  EXPECT_FALSE(timer.deadline());
}

// A file that is being written: it begins nothing, but what is pending waits for it.
TEST(ReloadTimer, WritingPutsOffButDoesNotBegin) {
  ReloadTimer timer;
  timer.OnEvent(FileEvent::kTouched, kStart);
  EXPECT_FALSE(timer.deadline());
  timer.OnEvent(FileEvent::kComplete, kStart);
  timer.OnEvent(FileEvent::kTouched, kStart + Millis(100));
  EXPECT_EQ(timer.deadline(), kStart + Millis(300));
}

TEST(ReloadTimer, PatienceEnds) {
  ReloadTimer timer;
  for (int64_t ms = 0; ms < 5'000; ms += 100) {
    timer.OnEvent(FileEvent::kComplete, kStart + Millis(ms));
    EXPECT_FALSE(timer.TakeDue(kStart + Millis(ms)));
  }
  EXPECT_EQ(timer.deadline(), kStart + Seconds(5));
  EXPECT_TRUE(timer.TakeDue(kStart + Seconds(5)));
}

class WatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/penstock-watch-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name) { std::ofstream(folder_ / name) << "x"; }
  void Open(const fs::path& path) {
    auto opened = Watcher::Open(path.string());
    ASSERT_TRUE(opened) << opened.error().message;
    watcher_ = std::move(*opened);
  }
  // Whether a reload is due after what has happened, by a clock of the test's own. The kernel has queued the events
  // before the call that made them returned.
  bool Due() {
    now_ = now_ + Seconds(1);
    watcher_->OnReadable(now_);
    const auto deadline = watcher_->deadline();
    if (!deadline) return false;
    EXPECT_EQ(*deadline, now_ + Millis(200));
    now_ = *deadline;
    return watcher_->TakeDue(now_);
  }

  fs::path folder_;
  std::unique_ptr<Watcher> watcher_;
  SteadyTime now_ = kStart;
};

TEST_F(WatcherTest, AFileWrittenMovedAndDeleted) {
  Write("p.yaml");
  Open(folder_ / "p.yaml");
  EXPECT_FALSE(Due());
  Write("other.yaml");
  EXPECT_FALSE(Due());
  Write("p.yaml");
  EXPECT_TRUE(Due());
  EXPECT_FALSE(Due());
  fs::rename(folder_ / "other.yaml", folder_ / "p.yaml");
  EXPECT_TRUE(Due());
  fs::remove(folder_ / "p.yaml");
  EXPECT_TRUE(Due());
  Write("p.yaml");
  EXPECT_TRUE(Due());
}

TEST_F(WatcherTest, AFileThatIsStillOpenBeginsNothing) {
  Write("p.yaml");
  Open(folder_ / "p.yaml");
  {
    std::ofstream file(folder_ / "p.yaml");
    file << "half" << std::flush;
    EXPECT_FALSE(Due());
  }
  EXPECT_TRUE(Due());
}

TEST_F(WatcherTest, AFolder) {
  Open(folder_);
  Write("a.yaml");
  EXPECT_TRUE(Due());
  Write("note.txt");
  Write(".a.yaml.swp");
  EXPECT_FALSE(Due());
  fs::remove(folder_ / "a.yaml");
  EXPECT_TRUE(Due());
}

TEST_F(WatcherTest, AConfigMapSwapIsOneReload) {
  fs::create_directory(folder_ / "..1");
  Write("..1/a.yaml");
  fs::create_directory_symlink("..1", folder_ / "..data");
  fs::create_symlink("..data/a.yaml", folder_ / "a.yaml");
  for (const bool whole : {true, false}) {
    Open(whole ? folder_ : folder_ / "a.yaml");
    for (const std::string next : {whole ? "..2" : "..4", whole ? "..3" : "..5"}) {
      fs::create_directory(folder_ / next);
      Write(next + "/a.yaml");
      fs::create_directory_symlink(next, folder_ / "..data_tmp");
      fs::rename(folder_ / "..data_tmp", folder_ / "..data");
      EXPECT_TRUE(Due()) << next;
      EXPECT_FALSE(Due()) << next;
    }
  }
}

TEST_F(WatcherTest, ALinkThatIsTurnedAndItsTarget) {
  fs::create_directory(folder_ / "real");
  Write("real/one.yaml");
  Write("real/two.yaml");
  fs::create_symlink("real/one.yaml", folder_ / "p.yaml");
  Open(folder_ / "p.yaml");
  Write("real/two.yaml");
  EXPECT_FALSE(Due());
  Write("real/one.yaml");
  EXPECT_TRUE(Due());
  fs::create_symlink("real/two.yaml", folder_ / "new");
  fs::rename(folder_ / "new", folder_ / "p.yaml");
  EXPECT_TRUE(Due());
  Write("real/one.yaml");
  EXPECT_FALSE(Due());
  Write("real/two.yaml");
  EXPECT_TRUE(Due());
}

TEST_F(WatcherTest, AFolderThatIsDeletedAndComesBack) {
  fs::create_directory(folder_ / "dir");
  Write("dir/a.yaml");
  Open(folder_ / "dir");
  for (const bool moved : {false, true}) {
    fs::remove_all(folder_ / "dir");
    EXPECT_TRUE(Due());
    if (moved) {
      fs::create_directory(folder_ / "aside");
      EXPECT_FALSE(Due());
      fs::rename(folder_ / "aside", folder_ / "dir");
    } else {
      fs::create_directory(folder_ / "dir");
    }
    EXPECT_TRUE(Due());
    Write("dir/a.yaml");
    EXPECT_TRUE(Due());
    Write("dir/a.yaml");
    EXPECT_TRUE(Due());
    EXPECT_FALSE(Due());
  }
  // All between two looks.
  fs::remove_all(folder_ / "dir");
  fs::create_directory(folder_ / "dir");
  Write("dir/a.yaml");
  EXPECT_TRUE(Due());
  Write("dir/a.yaml");
  EXPECT_TRUE(Due());
}

// What is written into the new folder puts the reload off, so no half of it is read.
TEST_F(WatcherTest, ANewFolderIsWatchedBeforeItsReload) {
  fs::create_directory(folder_ / "dir");
  Open(folder_ / "dir");
  fs::remove_all(folder_ / "dir");
  EXPECT_TRUE(Due());
  fs::create_directory(folder_ / "dir");
  watcher_->OnReadable(now_);
  Write("dir/a.yaml");
  watcher_->OnReadable(now_ + Millis(150));
  EXPECT_EQ(watcher_->deadline(), now_ + Millis(350));
}

TEST_F(WatcherTest, RearmFindsWhatCameBackUnseen) {
  fs::create_directories(folder_ / "up/dir");
  Open(folder_ / "up/dir");
  fs::remove_all(folder_ / "up");
  EXPECT_TRUE(Due());
  fs::create_directories(folder_ / "up/dir");
  EXPECT_FALSE(Due());  // two folders up nothing is watched
  watcher_->Rearm();
  watcher_->Rearm();
  EXPECT_FALSE(Due());
  Write("up/dir/a.yaml");
  EXPECT_TRUE(Due());
}

TEST_F(WatcherTest, AMissingFolderCannotBeWatched) {
  EXPECT_FALSE(Watcher::Open((folder_ / "no/such/p.yaml").string()));
}

}  // namespace
}  // namespace penstock::config
