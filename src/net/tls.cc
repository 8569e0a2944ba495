#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace penstock::net {
namespace {

std::string Reason(unsigned long code) {
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

tl::unexpected<Error> Refuse(std::string_view what, const std::string& file) {
  std::string message = "TLS: ";
  message.append(what).append(" '").append(file).append("': ").append(LastTlsError());
  return Invalid(std::move(message));
}

Result<std::shared_ptr<SSL_CTX>> NewContext(const TlsFiles& files) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return Fail(ErrorKind::kInternal, "TLS: " + LastTlsError());
  SSL_CTX* const ctx = context.get();
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  // A peer that ends TCP without close_notify is an end like any other: the messages carry their own lengths.
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                               SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(
      ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_use_certificate_chain_file(ctx, files.cert.c_str()) != 1) {
    return Refuse("cannot use the certificate", files.cert);
  }
  if (SSL_CTX_use_PrivateKey_file(ctx, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Refuse("cannot use the key", files.key);
  }
  if (SSL_CTX_check_private_key(ctx) != 1)
    return Refuse("the certificate does not belong to the key", files.key);
  if (!files.client_ca.empty()) {
    if (SSL_CTX_load_verify_file(ctx, files.client_ca.c_str()) != 1) {
      return Refuse("cannot use the client CA", files.client_ca);
    }
    SSL_CTX_set_client_CA_list(ctx, SSL_load_client_CA_file(files.client_ca.c_str()));
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    static constexpr unsigned char kSessionContext[] = "penstock";
    SSL_CTX_set_session_id_context(ctx, kSessionContext, sizeof kSessionContext - 1);
  }
  ERR_clear_error();
  return context;
}

}  // namespace

std::string LastTlsError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  return Reason(code);
}

std::string FileStamp(const std::string& file) {
  struct stat info {};
  if (file.empty() || ::stat(file.c_str(), &info) != 0) return "-;";
  std::string out;
  for (const int64_t part : {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
                             static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mtim.tv_sec),
                             static_cast<int64_t>(info.st_mtim.tv_nsec)}) {
    AppendInt(out, part);
    out += ',';
  }
  out += ';';
  return out;
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

TlsStream::Io TlsStream::Failed(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return {Status::kWantRead};
    case SSL_ERROR_WANT_WRITE:
      return {Status::kWantWrite};
    case SSL_ERROR_ZERO_RETURN:
      return {Status::kEnd};
    default:
      break;
  }
  errno_ = errno;
  broken_ = true;
  code_ = ERR_get_error();
  ERR_clear_error();
  return {Status::kError};
}

std::string TlsStream::Why() const {
  if (const long verified = SSL_get_verify_result(ssl_); verified != X509_V_OK) {
    return std::string("the peer's certificate: ") + X509_verify_cert_error_string(verified);
  }
  if (code_ != 0) return Reason(code_);
  return errno_ == 0 ? "the peer ended the connection" : std::strerror(errno_);
}

TlsStream::Io TlsStream::Handshake() {
  ERR_clear_error();  // SSL_get_error looks at the thread's queue, where another connection may have left something
  const int result = SSL_do_handshake(ssl_);
  return result == 1 ? Io{Status::kOk} : Failed(result);
}

TlsStream::Io TlsStream::Read(std::span<char> buffer) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    ERR_clear_error();
    size_t bytes = 0;
    const int result = SSL_read_ex(ssl_, buffer.data() + filled, buffer.size() - filled, &bytes);
    if (result == 1) {
      filled += bytes;
      continue;
    }
    // What was read before the end or the failure is given first; the next call finds the same again.
    const Io failed = Failed(result);
    if (filled == 0) return failed;
    break;
  }
  return {Status::kOk, filled};
}

TlsStream::Io TlsStream::Write(std::string_view bytes) {
  ERR_clear_error();
  size_t written = 0;
  const int result = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written);
  return result == 1 ? Io{Status::kOk, written} : Failed(result);
}

bool TlsStream::HasPending() const { return SSL_pending(ssl_) > 0; }

void TlsStream::Shutdown() {
  if (broken_ || !SSL_is_init_finished(ssl_)) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
}

TlsServer::~TlsServer() = default;

Result<std::unique_ptr<TlsServer>> TlsServer::Load(TlsFiles files) {
  std::unique_ptr<TlsServer> server(new TlsServer(std::move(files)));
  if (Result<void> loaded = server->Reload(); !loaded) return tl::unexpected(loaded.error());
  return server;
}

Result<void> TlsServer::Reload() {
  // The stamp is taken before the files are read: what is written in between is seen as a change later.
  std::string stamp = Stamp();
  Result<std::shared_ptr<SSL_CTX>> context = NewContext(files_);
  MutexLock lock(mutex_);
  stamp_ = std::move(stamp);
  if (!context) return tl::unexpected(context.error());
  context_ = std::move(*context);
  return {};
}

std::string TlsServer::Stamp() const {
  return FileStamp(files_.cert) + FileStamp(files_.key) + FileStamp(files_.client_ca);
}

bool TlsServer::FilesChanged() const {
  const std::string stamp = Stamp();
  MutexLock lock(mutex_);
  return stamp != stamp_;
}

std::unique_ptr<TlsStream> TlsServer::NewStream(int fd) const {
  std::shared_ptr<SSL_CTX> context;
  {
    MutexLock lock(mutex_);
    context = context_;
  }
  SSL* const ssl = SSL_new(context.get());  // holds the context as long as it lives
  if (ssl == nullptr) return nullptr;
  if (SSL_set_fd(ssl, fd) != 1) {
    SSL_free(ssl);
    return nullptr;
  }
  SSL_set_accept_state(ssl);
  return std::make_unique<TlsStream>(ssl);
}

}  // namespace penstock::net
