// What any peer can send to the HTTP port, and any server to our client: the first byte says which, and how the rest
// is cut. Whatever the bytes: no crash, no read outside them, and the same messages come out however they are cut.
// What a request carries goes on through the code that reads it: paths, queries, forwarded addresses.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "http/forwarded.h"
#include "http/request_parser.h"
#include "http/response_parser.h"
#include "http/session.h"
#include "http/url.h"

namespace {

namespace http = penstock::http;
using penstock::Cidr;
using penstock::ParseAddress;
using penstock::ReplyTicket;

void Require(bool holds) {
  if (!holds) std::abort();
}

void UseRequest(const http::Request& request, std::string& seen) {
  seen.append(request.method_text).append(request.target).append(request.body);
  for (const http::Header& header : request.headers) seen.append(header.name).append(header.value);
  std::string path;
  if (http::AppendNormalPath(path, request.path)) {
    std::string again;
    Require(http::AppendNormalPath(again, path) && again == path);
  }
  if (const auto query = http::ParseQuery(request.query)) Require(query->size() <= http::kMaxQueryParameters);
  std::string_view segments[8];
  (void)http::SplitPath(request.path, segments);
  const Cidr trusted[] = {*Cidr::Parse("10.0.0.0/8"), *Cidr::Parse("::/0")};
  http::ClientAddress(*ParseAddress("10.0.0.1"), request, trusted).AppendText(seen);
}

// All that a session makes of the bytes, given `piece` at a time.
std::string Serve(std::string_view bytes, size_t piece) {
  http::SessionOptions options;
  options.limits = {.max_head_bytes = 512, .max_headers = 10, .max_body_bytes = 256};
  options.max_in_flight = 4;
  http::Session session(options);
  session.Open();
  std::string seen;
  std::vector<ReplyTicket> owed;
  const auto answer_all = [&] {
    // The last first, so that answers are held for their turn.
    for (auto ticket = owed.rbegin(); ticket != owed.rend(); ++ticket) {
      Require(session.Answer(*ticket, [](std::string& out, const http::ReplyShape& shape) {
        http::ResponseWriter(out, shape, 200).Body("text/plain", "ok");
      }));
    }
    owed.clear();
  };
  for (;;) {
    const http::Action action = session.Next();
    if (const auto* incoming = std::get_if<http::Incoming>(&action)) {
      UseRequest(*incoming->request, seen);
      owed.push_back(incoming->ticket);
    } else if (std::holds_alternative<http::Paused>(action) && !owed.empty()) {
      answer_all();
    } else if (std::holds_alternative<http::NeedBytes>(action) && !bytes.empty()) {
      const std::span<char> space = session.ReceiveSpace();
      const size_t count = std::min({space.size(), bytes.size(), piece});
      std::memcpy(space.data(), bytes.data(), count);
      session.Received(count);
      bytes.remove_prefix(count);
    } else {
      break;
    }
  }
  session.PeerFinished();
  (void)session.Next();
  answer_all();
  Require(session.in_flight() == 0);
  // An answer "100 Continue" comes only where the body did not follow at once, so it depends on the cut.
  std::string sent(session.Output());
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  for (size_t at = 0; (at = sent.find(kContinue, at)) != std::string::npos;) sent.erase(at, kContinue.size());
  return seen + sent;
}

std::string Receive(std::string_view bytes, size_t piece, bool to_head) {
  http::ResponseParser parser({.max_head_bytes = 512, .max_headers = 10, .max_body_bytes = 256});
  std::string seen;
  std::string unread;
  const auto use = [&] {
    const http::Response& response = parser.response();
    seen += std::to_string(response.status);
    seen.append(response.reason).append(response.body);
    for (const http::Header& header : response.headers) seen.append(header.name).append(header.value);
  };
  while (!bytes.empty()) {
    unread.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      const std::vector<char> copy(unread.begin(), unread.end());
      const auto step = parser.Parse({copy.data(), copy.size()}, to_head);
      Require(step.consumed <= unread.size());
      if (step.status == http::ResponseParser::Status::kResponse) use();
      unread.erase(0, step.consumed);
      if (step.status == http::ResponseParser::Status::kError) return seen.append(parser.error().sentence);
      if (step.status == http::ResponseParser::Status::kNeedMore) break;
    }
  }
  if (parser.Finish() == http::ResponseParser::Status::kResponse) use();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = 1 + choice % 16;
  if (choice >= 128) {
    const bool to_head = choice >= 192;
    Require(Receive(bytes, bytes.size(), to_head) == Receive(bytes, piece, to_head));
  } else {
    Require(Serve(bytes, bytes.size()) == Serve(bytes, piece));
  }
  return 0;
}
