// Outgoing streams over real sockets: to our own listener, to sockets of the test, and to nobody.
#include "net/dialer.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/endpoint.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/socket_address.h"

namespace penstock::net {
namespace {

// Sends back what it gets; closes after a 'q'.
class EchoProtocol final : public Protocol {
 public:
  void Open(Wire&) noexcept override {
    wants_ = Wants{};
    output_.clear();
  }
  std::span<char> ReceiveSpace() noexcept override { return input_; }
  void Received(size_t count) noexcept override {
    output_.append(input_, count);
    wants_.close = output_.find('q') != std::string::npos;
    wants_.progress++;
  }
  void ReceivedEnd() noexcept override {}
  void TimedOut(Stage) noexcept override {}
  void Drain() noexcept override { wants_.close = true; }
  void Close() noexcept override {}
  Wants wants() const noexcept override { return wants_; }
  std::string_view Output() const noexcept override { return output_; }
  void Written(size_t count) noexcept override { output_.erase(0, count); }

 private:
  char input_[16 * 1024];
  std::string output_;
  Wants wants_;
};

// What one stream told, on the loop's thread.
class Recorder final : public StreamHandler {
 public:
  void Connected() noexcept override {
    ++connected;
    if (on_connected) on_connected();
  }
  std::span<char> ReceiveSpace() noexcept override { return space_; }
  void Received(size_t count) noexcept override {
    received.append(space_, count);
    if (on_received) on_received();
  }
  void Closed(std::string_view reason) noexcept override {
    ++closed;
    why = reason;
    if (on_closed) on_closed();
  }

  int connected = 0;
  int closed = 0;
  std::string received;
  std::string why;
  std::function<void()> on_connected;
  std::function<void()> on_received;
  std::function<void()> on_closed;

 private:
  char space_[8 * 1024];
};

// A certificate of its own authority for one name, as PEM files.
struct Certificate {
  std::string cert;
  std::string key;

  Certificate(const std::string& folder, const std::string& name) {
    cert = folder + '/' + name + ".crt";
    key = folder + '/' + name + ".key";
    EVP_PKEY* const pair = EVP_EC_gen("P-256");
    X509* const x509 = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_set_version(x509, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(x509), -3'600);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3'600);
    X509_set_pubkey(x509, pair);
    X509_NAME* const subject = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(x509, subject);
    X509V3_CTX context;
    X509V3_set_ctx(&context, x509, x509, nullptr, nullptr, 0);
    X509_EXTENSION* const names =
        X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, ("DNS:" + name).c_str());
    X509_add_ext(x509, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(x509, pair, EVP_sha256());
    std::FILE* file = std::fopen(cert.c_str(), "w");
    PEM_write_X509(file, x509);
    std::fclose(file);
    file = std::fopen(key.c_str(), "w");
    PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(x509);
    EVP_PKEY_free(pair);
  }
};

class DialerTest : public testing::Test {
 protected:
  void SetUp() override {
    PrepareProcess();
    char folder[] = "/tmp/penstock-dialer-XXXXXX";
    folder_ = ::mkdtemp(folder);
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override {
    OnLoop([this] { stream_.reset(); });
    loop_.Stop();
    thread_.join();
    listener_.reset();
    dialer_.reset();
    std::filesystem::remove_all(folder_);
  }
  DialTarget StartServer(const TlsServer* tls = nullptr) {
    const Endpoint endpoint = *ReserveEndpoint(*ParseEndpoint("127.0.0.1:0"));
    ListenerOptions options;
    options.stats = &stats_;
    options.tls = tls;
    options.factory = [] { return std::make_unique<EchoProtocol>(); };
    listener_ = std::make_unique<Listener>(loop_, *OpenListeningSocket(endpoint), options);
    OnLoop([this] { EXPECT_TRUE(listener_->Start()); });
    DialTarget target;
    target.host = "127.0.0.1";
    target.port = endpoint.port;
    return target;
  }
  void OnLoop(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void Await(const std::function<bool()>& condition) {
    for (bool holds = false; !holds; std::this_thread::yield()) OnLoop([&] { holds = condition(); });
  }
  void Dial(const DialTarget& target) {
    OnLoop([&] {
      const int told = heard_.connected + heard_.closed;
      stream_ = dialer_->Dial(target, heard_);
      EXPECT_EQ(heard_.connected + heard_.closed, told) << "told from inside Dial";
    });
  }
  void Write(std::string_view bytes) {
    OnLoop([&] { stream_->Write(bytes); });
  }

  SystemClock clock_;
  Loop loop_{clock_};
  ListenerStats stats_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Dialer> dialer_ = NewDialer(loop_);
  Recorder heard_;
  std::unique_ptr<Stream> stream_;
  std::string folder_;
  std::thread thread_;
};

TEST_F(DialerTest, BytesGoThereAndComeBackAndTheEndIsTold) {
  Dial(StartServer());
  Write("early ");  // before it is connected
  Await([&] { return heard_.received == "early "; });
  OnLoop([&] {
    stream_->Write("o");
    stream_->Write("n");
    EXPECT_EQ(stream_->unsent(), 2u);
  });
  Await([&] { return heard_.received == "early on"; });
  Write("q");
  Await([&] { return heard_.closed == 1; });
  EXPECT_EQ(heard_.received, "early onq");
  EXPECT_EQ(heard_.why, "the server closed the connection");
  EXPECT_EQ(heard_.connected, 1);
  Write("into the void");
}

TEST_F(DialerTest, ANameIsLookedUpAndEveryAddressOfItIsTried) {
  DialTarget target = StartServer();
  target.host = "localhost";  // may have ::1 first, where nobody listens
  Dial(target);
  Write("x");
  Await([&] { return heard_.received == "x"; });
}

// A socket that listens, whose backlog is full: the kernel drops what wants to connect.
TEST_F(DialerTest, AnAddressThatDoesNotAnswerIsLeftForTheNext) {
  DialTarget target = StartServer();
  SocketAddress full = SocketAddress::Of(*ParseAddress("127.0.0.2"), target.port);
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listening, full.get(), full.length), 0);
  ASSERT_EQ(::listen(listening, 0), 0);
  std::vector<int> filling;
  for (int i = 0; i < 3; ++i) {
    filling.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(filling.back(), full.get(), full.length);
  }
  const auto dialer =
      NewDialer(loop_, [](const std::string&, const std::function<void(const Resolved&)>& done) {
        done({{*ParseAddress("127.0.0.2"), *ParseAddress("127.0.0.1")}, ""});
      });
  target.host = "store.example";
  OnLoop([&] { stream_ = dialer->Dial(target, heard_); });
  Write("x");
  Await([&] { return heard_.received == "x"; });
  OnLoop([&] { stream_.reset(); });
  for (const int fd : filling) ::close(fd);
  ::close(listening);
}

TEST_F(DialerTest, AnUnknownNameSaysSo) {
  DialTarget target;
  target.host = "no.such.name.invalid";
  target.port = 1;
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_NE(heard_.why.find("the name 'no.such.name.invalid' cannot be looked up"), std::string::npos)
      << heard_.why;
}

TEST_F(DialerTest, AStreamMayGoWhileItsNameIsLookedUp) {
  DialTarget target = StartServer();
  target.host = "localhost";
  for (int i = 0; i < 100; ++i) {
    OnLoop([&] {
      stream_ = dialer_->Dial(target, heard_);
      stream_.reset();
    });
  }
  Dial(target);
  Write("x");
  Await([&] { return heard_.received == "x"; });
  EXPECT_EQ(heard_.connected, 1);
}

TEST_F(DialerTest, WhereNobodyListensTheCauseIsTold) {
  DialTarget target;
  target.host = "127.0.0.1";
  target.port = ReserveEndpoint(*ParseEndpoint("127.0.0.1:0"))->port;  // and nobody listens there
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_NE(heard_.why.find("cannot connect: Connection refused"), std::string::npos) << heard_.why;
  EXPECT_EQ(heard_.connected, 0);
}

TEST_F(DialerTest, AUnixSocketIsReachedByItsPath) {
  DialTarget target;
  target.path = folder_ + "/socket";
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(target.path.size(), sizeof address.sun_path);
  target.path.copy(address.sun_path, target.path.size());
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  Dial(target);
  Write("hello");
  const int accepted = ::accept(listening, nullptr, nullptr);
  char bytes[5];
  ASSERT_EQ(::recv(accepted, bytes, sizeof bytes, MSG_WAITALL), 5);
  EXPECT_EQ(std::string(bytes, 5), "hello");
  ASSERT_EQ(::send(accepted, "you", 3, MSG_NOSIGNAL), 3);
  Await([&] { return heard_.received == "you"; });
  ::close(accepted);
  Await([&] { return heard_.closed == 1; });
  ::close(listening);
}

TEST_F(DialerTest, AMissingUnixSocketAndALongPathSaySo) {
  DialTarget target;
  target.path = folder_ + "/none";
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_NE(heard_.why.find("No such file"), std::string::npos) << heard_.why;
  target.path.append(200, 'x');
  Dial(target);
  Await([&] { return heard_.closed == 2; });
  EXPECT_NE(heard_.why.find("too long"), std::string::npos) << heard_.why;
}

TEST_F(DialerTest, MoreThanTheKernelTakesIsKeptAndSentLater) {
  Dial(StartServer());
  const std::string piece(100'000, 'x');
  constexpr size_t kPieces = 300;
  OnLoop([&] {
    for (size_t i = 0; i < kPieces; ++i) stream_->Write(piece);
    EXPECT_EQ(stream_->unsent(), kPieces * piece.size());
  });
  Await([&] { return heard_.received.size() == kPieces * piece.size(); });
  OnLoop([&] { EXPECT_EQ(stream_->unsent(), 0u); });
}

TEST_F(DialerTest, ItMayBeDestroyedInsideEachCall) {
  const DialTarget target = StartServer();
  int done = 0;
  const auto destroy = [&] {
    stream_.reset();
    ++done;
  };
  heard_.on_connected = destroy;
  Dial(target);
  Await([&] { return done == 1; });
  heard_.on_connected = nullptr;
  heard_.on_received = destroy;
  Dial(target);
  Write("x");
  Await([&] { return done == 2; });
  heard_.on_received = nullptr;
  heard_.on_closed = destroy;
  Dial(target);
  Write("q");
  Await([&] { return done == 3; });
}

// Two streams have something to tell in one turn, and the first destroys both.
TEST_F(DialerTest, AStreamMayDestroyAnother) {
  const DialTarget target = StartServer();
  Recorder other;
  std::unique_ptr<Stream> other_stream;
  for (int i = 0; i < 50; ++i) {
    heard_.received.clear();
    other.received.clear();
    Dial(target);
    OnLoop([&] { other_stream = dialer_->Dial(target, other); });
    const auto destroy = [&] {
      stream_.reset();
      other_stream.reset();
    };
    heard_.on_received = destroy;
    other.on_received = destroy;
    OnLoop([&] {
      stream_->Write("x");
      other_stream->Write("y");
    });
    Await([&] { return stream_ == nullptr; });
    EXPECT_EQ(heard_.received.size() + other.received.size(), 1u);
  }
}

// ---- TLS

class TlsDialerTest : public DialerTest {
 protected:
  DialTarget StartTlsServer(const Certificate& certificate, const std::string& client_ca = "") {
    auto server = TlsServer::Load({certificate.cert, certificate.key, client_ca});
    EXPECT_TRUE(server);
    tls_ = std::move(*server);
    DialTarget target = StartServer(tls_.get());
    target.tls = true;
    target.tls_ca = certificate.cert;
    target.tls_name = "store.example";
    return target;
  }
  std::unique_ptr<TlsServer> tls_;
};

TEST_F(TlsDialerTest, BytesGoThereAndComeBack) {
  Dial(StartTlsServer(Certificate(folder_, "store.example")));
  const std::string piece(100'000, 'x');
  OnLoop([&] {
    for (int i = 0; i < 30; ++i) stream_->Write(piece);
  });
  Await([&] { return heard_.received.size() == 30 * piece.size(); });
  Write("q");
  Await([&] { return heard_.closed == 1; });
  EXPECT_EQ(heard_.connected, 1);
}

TEST_F(TlsDialerTest, AnotherNameIsRefused) {
  DialTarget target = StartTlsServer(Certificate(folder_, "store.example"));
  target.tls_name = "other.example";
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_EQ(heard_.connected, 0);
  EXPECT_NE(heard_.why.find("hostname mismatch"), std::string::npos) << heard_.why;
  target.tls_name = "";  // then it is the address that the certificate would have to name
  Dial(target);
  Await([&] { return heard_.closed == 2; });
  EXPECT_NE(heard_.why.find("IP address mismatch"), std::string::npos) << heard_.why;
}

TEST_F(TlsDialerTest, AnUnknownAuthorityIsRefused) {
  DialTarget target = StartTlsServer(Certificate(folder_, "store.example"));
  target.tls_ca = Certificate(folder_, "elsewhere.example").cert;
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_NE(heard_.why.find("self-signed certificate"), std::string::npos) << heard_.why;
  target.tls_ca = "";  // the system's know it neither
  Dial(target);
  Await([&] { return heard_.closed == 2; });
  EXPECT_EQ(heard_.connected, 0);
}

TEST_F(TlsDialerTest, AClientsCertificateIsShownWhereItIsAskedFor) {
  const Certificate client(folder_, "client.example");
  DialTarget target = StartTlsServer(Certificate(folder_, "store.example"), client.cert);
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_NE(heard_.why.find("certificate required"), std::string::npos) << heard_.why;
  target.tls_cert = client.cert;
  target.tls_key = client.key;
  Dial(target);
  Write("x");
  Await([&] { return heard_.received == "x"; });
}

TEST_F(TlsDialerTest, FilesThatCannotBeReadAreNamedAndReadAgainWhenTheyCome) {
  const Certificate certificate(folder_, "store.example");
  DialTarget target = StartTlsServer(certificate);
  target.tls_ca = folder_ + "/later.crt";
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_NE(heard_.why.find("later.crt"), std::string::npos) << heard_.why;
  std::filesystem::copy_file(certificate.cert, target.tls_ca);
  Dial(target);
  Write("x");
  Await([&] { return heard_.received == "x"; });
}

TEST_F(TlsDialerTest, APlainServerIsNoTlsServer) {
  DialTarget target = StartServer();
  target.tls = true;
  Dial(target);
  Await([&] { return heard_.closed == 1; });
  EXPECT_EQ(heard_.connected, 0);
  EXPECT_NE(heard_.why.find("TLS: "), std::string::npos) << heard_.why;
}

}  // namespace
}  // namespace penstock::net
