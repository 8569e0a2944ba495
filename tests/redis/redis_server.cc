#include "redis/redis_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "redis/fixture_error.h"
#include "redis/users.h"

namespace penstock::fixtures {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kStopPatience{10};

std::string WantedProgram() {
  const char* const named = std::getenv("PENSTOCK_REDIS_SERVER");
  return named != nullptr && *named != '\0' ? named : "redis-server";
}

std::string NewFolder() {
  // Not TMPDIR: a Unix socket's path has 107 bytes.
  std::string name = "/tmp/penstock-redis-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw FixtureError("no temporary folder");
  return name;
}

// In the child: only what a forked child of a threaded program may call.
[[noreturn]] void Execute(const char* program, const char* configuration, bool sentinel, const char* log,
                          pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int in = open("/dev/null", O_RDONLY);
  if (out < 0 || in < 0) _exit(126);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execl(program, program, configuration, sentinel ? "--sentinel" : nullptr, nullptr);
  _exit(127);
}

}  // namespace

void WaitFor(const std::string& what, const std::function<bool()>& holds, std::chrono::seconds at_most) {
  const auto end = steady_clock::now() + at_most;
  milliseconds pause{1};
  std::string last;
  while (steady_clock::now() < end) {
    try {
      if (holds()) return;
    } catch (const FixtureError& error) {
      last = error.what();
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + milliseconds(1), milliseconds(20));
  }
  throw FixtureError("waited in vain: " + what + (last.empty() ? "" : "; " + last));
}

std::optional<std::string> RedisServer::Program() {
  const std::string wanted = WantedProgram();
  if (wanted.find('/') != std::string::npos) {
    return access(wanted.c_str(), X_OK) == 0 ? std::optional(wanted) : std::nullopt;
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + wanted;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

std::string RedisServer::Missing() {
  return WantedProgram() +
         " is not installed (Debian's package has the same name; PENSTOCK_REDIS_SERVER names another)";
}

RedisServer::RedisServer(std::vector<std::string> lines) : RedisServer(Kind::kServer, std::move(lines)) {
  WaitReady();
}

RedisServer::RedisServer(Kind kind, std::vector<std::string> lines) : sentinel_(kind == Kind::kSentinel) {
  if (kind == Kind::kClusterNode) bus_port_.emplace();
  folder_ = NewFolder();
  path_ = folder_ + "/redis.sock";
  WriteConfiguration(kind, lines);
  Launch();
}

RedisServer::~RedisServer() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void RedisServer::WriteConfiguration(Kind kind, const std::vector<std::string>& lines) const {
  std::ofstream out(folder_ + "/redis.conf");
  out << "port " << port() << "\nbind 127.0.0.1\nprotected-mode no\ndaemonize no\nunixsocket " << path_
      << "\ndir " << folder_ << "\n";
  if (kind != Kind::kSentinel) {
    out << "save \"\"\nappendonly no\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0\n";
  }
  if (kind == Kind::kClusterNode) {
    out << "cluster-enabled yes\ncluster-port " << bus_port() << "\ncluster-config-file nodes.conf\n";
  }
  out << (kind == Kind::kSentinel ? SentinelUser() : NodeUser()).line << "\n";
  for (const std::string& line : lines) out << line << "\n";
  out.close();
  if (!out) throw FixtureError("cannot write " + folder_ + "/redis.conf");
}

void RedisServer::Launch() {
  const std::optional<std::string> program = Program();
  if (!program) throw FixtureError(Missing());
  const std::string configuration = folder_ + "/redis.conf";
  const std::string log = folder_ + "/log";
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) Execute(program->c_str(), configuration.c_str(), sentinel_, log.c_str(), parent);
  if (pid_ < 0) throw FixtureError("cannot fork");
  frozen_ = false;
}

void RedisServer::WaitReady() {
  WaitFor("a server that answers", [this] {
    if (!running()) return true;
    const ReplyValue reply = RedisClient::Unix(path_, milliseconds(500)).Call("PING");
    return reply.text == "PONG" || reply.text.starts_with("NOAUTH");
  });
  if (!running()) throw FixtureError("the server has ended: " + Log());
}

bool RedisServer::running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

void RedisServer::End(int signal) {
  if (!running()) return;
  kill(pid_, signal);
  if (frozen_) kill(pid_, SIGCONT);
  const auto end = steady_clock::now() + kStopPatience;
  while (running()) {
    if (steady_clock::now() > end) throw FixtureError("the server does not end: " + Log());
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void RedisServer::Stop() { End(SIGTERM); }

void RedisServer::Kill() { End(SIGKILL); }

void RedisServer::Freeze() {
  kill(pid_, SIGSTOP);
  int status = 0;
  if (waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status)) {
    throw FixtureError("the server cannot be frozen: " + Log());
  }
  frozen_ = true;
}

void RedisServer::Thaw() {
  kill(pid_, SIGCONT);
  frozen_ = false;
}

void RedisServer::Start() {
  if (running()) throw FixtureError("the server runs already");
  Launch();
  WaitReady();
}

void RedisServer::Restart(Keep keep) {
  if (keep == Keep::kData) Connect().Must("SAVE");
  Kill();
  if (keep == Keep::kNothing) {
    fs::remove(folder_ + "/dump.rdb");
    fs::remove_all(folder_ + "/appendonlydir");
  }
  Start();
}

RedisClient RedisServer::Connect() const { return RedisClient::Unix(path_); }

RedisClient RedisServer::ConnectAsNode() const {
  RedisClient client = Connect();
  client.Must("AUTH", NodeUser().name, NodeUser().password);
  const ReplyValue refused = client.Call("ACL", "WHOAMI");
  if (!refused.text.starts_with("NOPERM")) throw FixtureError("a node may ask who it is: " + refused.Text());
  return client;
}

std::set<std::string> RedisServer::UsersOfNodes() const {
  std::set<std::string> users;
  std::istringstream clients(Connect().Must("CLIENT", "LIST").text);
  for (std::string line; std::getline(clients, line);) {
    if (line.find(" name=penstock-") == std::string::npos) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.starts_with("user=")) users.insert(word.substr(5));
    }
  }
  return users;
}

std::string RedisServer::Url() const {
  return "redis://" + NodeUser().LogIn() + "127.0.0.1:" + std::to_string(port());
}

std::string RedisServer::UnixUrl() const { return "unix://" + NodeUser().LogIn() + path_; }

std::string RedisServer::Log() const {
  constexpr size_t kTail = 2'000;
  std::ifstream in(folder_ + "/log");
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return text.size() > kTail ? text.substr(text.size() - kTail) : text;
}

}  // namespace penstock::fixtures
