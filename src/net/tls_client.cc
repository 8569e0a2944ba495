#include "net/tls_client.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <utility>

#include "base/address.h"

namespace penstock::net {
namespace {

tl::unexpected<Error> Refuse(std::string_view what, const std::string& file) {
  std::string message = "TLS: ";
  message.append(what).append(" '").append(file).append("': ").append(LastTlsError());
  return Invalid(std::move(message));
}

Result<std::shared_ptr<SSL_CTX>> NewContext(const DialTarget& target) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (!context) return Fail(ErrorKind::kInternal, "TLS: " + LastTlsError());
  SSL_CTX* const ctx = context.get();
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
  if (target.tls_ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(ctx) != 1) return Refuse("cannot read", "the system's authorities");
  } else if (SSL_CTX_load_verify_file(ctx, target.tls_ca.c_str()) != 1) {
    return Refuse("cannot use the authorities of", target.tls_ca);
  }
  if (target.tls_cert.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(ctx, target.tls_cert.c_str()) != 1) {
    return Refuse("cannot use the certificate", target.tls_cert);
  }
  const std::string& key = target.tls_key.empty() ? target.tls_cert : target.tls_key;
  if (SSL_CTX_use_PrivateKey_file(ctx, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Refuse("cannot use the key", key);
  }
  if (SSL_CTX_check_private_key(ctx) != 1) return Refuse("the certificate does not belong to the key", key);
  return context;
}

// The name that the certificate must have, and for a name (not an address) that the server may choose it by.
bool ExpectName(SSL* ssl, const std::string& name) {
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (ParseAddress(name)) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1;
  return SSL_set1_host(ssl, name.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
}

}  // namespace

Result<std::shared_ptr<SSL_CTX>> TlsClient::Context(const DialTarget& target) {
  // Taken before the files are read: what is written in between is seen as a change the next time.
  std::string stamp = FileStamp(target.tls_ca) + FileStamp(target.tls_cert) + FileStamp(target.tls_key);
  auto files = std::tuple(target.tls_ca, target.tls_cert, target.tls_key);
  const auto kept = kept_.find(files);
  if (kept != kept_.end() && kept->second.stamp == stamp) return kept->second.context;
  Result<std::shared_ptr<SSL_CTX>> context = NewContext(target);
  if (!context) return context;
  if (kept_.size() >= kMaxKept) kept_.clear();
  kept_[std::move(files)] = {*context, std::move(stamp)};
  return context;
}

Result<std::unique_ptr<TlsStream>> TlsClient::NewStream(int fd, const DialTarget& target) {
  const std::string& name = target.tls_name.empty() ? target.host : target.tls_name;
  // Without a name any certificate of a believed authority would do.
  if (name.empty()) return Invalid("TLS: no name to expect in the peer's certificate");
  const Result<std::shared_ptr<SSL_CTX>> context = Context(target);
  if (!context) return tl::unexpected(context.error());
  SSL* const ssl = SSL_new(context->get());
  if (ssl == nullptr) return Fail(ErrorKind::kInternal, "TLS: " + LastTlsError());
  auto stream = std::make_unique<TlsStream>(ssl);  // owns it from here on
  if (SSL_set_fd(ssl, fd) != 1 || !ExpectName(ssl, name)) {
    return Fail(ErrorKind::kInternal, "TLS: " + LastTlsError());
  }
  SSL_set_connect_state(ssl);
  return stream;
}

}  // namespace penstock::net
