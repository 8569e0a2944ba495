// TLS by OpenSSL on a connection's own non-blocking socket, and the server's side of it (tls_client.h has the other).
// The plain path never meets it.
//
// Certificates change while we run: Reload() reads the files again, connections that come later get the new ones, and
// those that are open keep what they have. A reload that fails changes nothing.
//
// Thread contract: TlsServer for any thread; a TlsStream belongs to its connection's loop.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"

struct ssl_st;
struct ssl_ctx_st;

namespace penstock::net {

struct TlsFiles {
  std::string cert;       // PEM, the chain, the server's own certificate first
  std::string key;        // PEM, without a pass phrase
  std::string client_ca;  // PEM; empty: clients need no certificate
};

class TlsStream {
 public:
  enum class Status : unsigned char { kOk, kWantRead, kWantWrite, kEnd, kError };
  struct Io {
    Status status = Status::kError;
    size_t bytes = 0;
  };

  explicit TlsStream(ssl_st* ssl) : ssl_(ssl) {}
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  Io Handshake();
  // Fills the buffer as far as whole records are there. kOk: bytes > 0.
  Io Read(std::span<char> buffer);
  Io Write(std::string_view bytes);
  // Bytes that were taken from the socket and not yet from here: no readiness of the socket tells of them.
  bool HasPending() const;
  // Tells the peer that nothing more comes.
  void Shutdown();
  // After kError: what was wrong, for a log.
  std::string Why() const;

 private:
  Io Failed(int result);

  ssl_st* const ssl_;
  bool broken_ = false;     // OpenSSL wants no further call after a fatal error
  unsigned long code_ = 0;  // of that error
  int errno_ = 0;           // or the system's
};

// Size, place and time of a file as text: another one where it was written or replaced.
std::string FileStamp(const std::string& file);
// Takes the error that OpenSSL noted last in this thread.
std::string LastTlsError();

class TlsServer {
 public:
  static Result<std::unique_ptr<TlsServer>> Load(TlsFiles files);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  Result<void> Reload() EXCLUDES(mutex_);
  // Whether a file is another one, or was written, since the last Load or Reload was tried.
  bool FilesChanged() const EXCLUDES(mutex_);

  // Null when out of memory.
  std::unique_ptr<TlsStream> NewStream(int fd) const EXCLUDES(mutex_);

 private:
  explicit TlsServer(TlsFiles files) : files_(std::move(files)) {}
  std::string Stamp() const;

  const TlsFiles files_;
  mutable Mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_ GUARDED_BY(mutex_);
  std::string stamp_ GUARDED_BY(mutex_);  // of the files when they were last read
};

}  // namespace penstock::net
