// RESP as a peer may send it. The first byte of an input chooses what it is fed to (`q` requests, `r` replies, else a
// session), the second into which pieces it is cut; the rest is the peer's bytes.
//
// Besides not crashing: cut into pieces of any size, bytes mean what they mean whole; a session answers every command
// exactly once, its bounds hold, and what it writes is RESP.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "resp/reply_parser.h"
#include "resp/request_parser.h"
#include "resp/session.h"

namespace {

using namespace penstock;        // NOLINT(google-build-using-namespace)
using namespace penstock::resp;  // NOLINT(google-build-using-namespace)

void Require(bool holds) {
  if (!holds) std::abort();
}

// A copy of exactly these bytes, so that the address sanitizer sees a step beyond them.
std::vector<char> Copy(std::string_view bytes) { return {bytes.begin(), bytes.end()}; }

void AppendPart(std::string& heard, std::string_view part) {
  heard += std::to_string(part.size());
  heard += ':';
  heard += part;
}

std::string HearRequests(std::string_view bytes, size_t piece, const Limits& limits) {
  RequestParser parser;
  std::string heard;
  std::string unread;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    unread += bytes.substr(at, piece);
    for (;;) {
      std::vector<char> copy = Copy(unread);
      const ParseResult result = parser.Parse(copy, limits);
      Require(result.consumed <= unread.size());
      if (result.status == ParseStatus::kDone) {
        Require(!parser.args().empty() && parser.args().size() <= limits.max_args);
        for (const std::string_view arg : parser.args()) AppendPart(heard, arg);
        heard += '\n';
      }
      unread.erase(0, result.consumed);
      if (result.status == ParseStatus::kError) return heard + std::string(parser.error());
      if (result.status == ParseStatus::kNeedMore) break;
    }
  }
  return heard;
}

// Every node of a reply, checked for the shape that reply_parser.h promises.
void HearReply(std::span<const ReplyNode> nodes, std::string& heard) {
  Require(!nodes.empty() && nodes[0].end == nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ReplyNode& node = nodes[i];
    uint32_t children = 0;
    for (size_t child = i + 1; child < node.end; child = nodes[child].end) {
      Require(nodes[child].end > child && nodes[child].end <= node.end);
      ++children;
    }
    Require(node.end > i && children == node.children);
    heard += std::to_string(static_cast<int>(node.type)) + "," + std::to_string(children) + "," +
             std::to_string(node.integer) + ",";
    AppendPart(heard, node.text);
  }
  heard += '\n';
}

std::string HearReplies(std::string_view bytes, size_t piece, const ReplyLimits& limits) {
  ReplyParser parser(limits);
  std::string heard;
  std::string unread;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    unread += bytes.substr(at, piece);
    for (;;) {
      const std::vector<char> copy = Copy(unread);
      const ParseResult result = parser.Parse({copy.data(), copy.size()});
      Require(result.consumed <= unread.size());
      if (result.status == ParseStatus::kDone) HearReply(parser.nodes(), heard);
      unread.erase(0, result.consumed);
      if (result.status == ParseStatus::kError) return heard + std::string(parser.error());
      if (result.status == ParseStatus::kNeedMore) break;
    }
  }
  return heard;
}

// A connection whose decisions are answered late and out of order, by a rule that depends on the pieces alone.
class Conversation {
 public:
  explicit Conversation(const SessionOptions& options) : options_(options), session_(options) {
    session_.Open(1, "peer");
  }

  std::string Hold(std::string_view bytes, size_t piece) {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      Receive(bytes.substr(at, piece));
      while (!Parse()) {  // paused
        if (!owed_.empty()) Answer(owed_.size() - 1);
        Drain();
      }
      if (at % 3 == 0 && !owed_.empty()) Answer(owed_.size() / 2);
    }
    while (!owed_.empty()) Answer(0);
    Drain();
    Require(session_.in_flight() == 0 && session_.pending_bytes() == 0);
    return output_;
  }

 private:
  void Receive(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::span<char> space = session_.ReceiveSpace();
      Require(space.size() >= ReceiveBuffer::kLeastSpace);
      const size_t size = std::min(space.size(), bytes.size());
      std::memcpy(space.data(), bytes.data(), size);
      session_.Received(size);
      bytes.remove_prefix(size);
    }
  }

  // Whether everything there was is parsed.
  bool Parse() {
    for (;;) {
      const Action action = session_.Next();
      Require(session_.in_flight() <= options_.max_in_flight);
      const Command* command = std::get_if<Command>(&action);
      if (command == nullptr) return !std::holds_alternative<Paused>(action);
      Require(session_.state().authenticated);
      owed_.push_back({command->ticket, std::string(command->args.back())});
    }
  }

  void Answer(size_t which) {
    const Owed owed = owed_[which];
    owed_.erase(owed_.begin() + static_cast<std::ptrdiff_t>(which));
    const auto write = [&](Writer& writer) {
      writer.Map(1);
      writer.Error(owed.text);
      writer.Null();
    };
    Require(session_.Answer(owed.ticket, write));
    Require(!session_.Answer(owed.ticket, write));
  }

  void Drain() {
    output_ += session_.Output();
    session_.Written(session_.Output().size());
  }

  struct Owed {
    ReplyTicket ticket;
    std::string text;
  };
  const SessionOptions& options_;
  Session session_;
  std::deque<Owed> owed_;
  std::string output_;
};

void Converse(std::string_view bytes, size_t piece, bool with_token) {
  SessionOptions options;
  options.version = "fuzz";
  options.max_in_flight = 4;
  options.max_pending_bytes = 2'000;
  if (with_token) options.token = "secret";
  const std::string whole = Conversation(options).Hold(bytes, std::max<size_t>(1, bytes.size()));
  Require(whole == Conversation(options).Hold(bytes, piece));
  ReplyParser parser;
  for (size_t at = 0; at < whole.size();) {
    const ParseResult result = parser.Parse(std::string_view(whole).substr(at));
    Require(result.status == ParseStatus::kDone);
    at += result.consumed;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const char kind = static_cast<char>(data[0]);
  const size_t piece = 1 + data[1] % 64;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const bool strict = data[1] >= 128;
  if (kind == 'q') {
    const Limits limits = strict ? kLimitsBeforeAuth : Limits{};
    Require(HearRequests(bytes, std::max<size_t>(1, bytes.size()), limits) ==
            HearRequests(bytes, piece, limits));
  } else if (kind == 'r') {
    ReplyLimits limits;
    if (strict)
      limits = {.max_depth = 3,
                .max_nodes = 20,
                .max_line_bytes = 16,
                .max_bulk_bytes = 16,
                .max_reply_bytes = 200};
    Require(HearReplies(bytes, std::max<size_t>(1, bytes.size()), limits) ==
            HearReplies(bytes, piece, limits));
  } else {
    Converse(bytes, piece, strict);
  }
  return 0;
}
