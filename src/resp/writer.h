// Appends RESP to an output string: replies of a server (Writer) and commands of a client (AppendCommand).
//
// The protocol version is a value: a reply belongs to the version its command was read under. Whatever RESP2
// has no type for is written as Redis does: maps as flat arrays, booleans as integers, null as the null bulk
// string.
//
// Thread contract: one thread. The string outlives the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "resp/protocol.h"

namespace penstock::resp {

class Writer {
 public:
  Writer(std::string& out, Protocol protocol) : out_(out), protocol_(protocol) {}

  void Integer(int64_t value);
  // An array of integers in one append: the reply of a decision.
  void Integers(std::initializer_list<int64_t> values);
  void Bulk(std::string_view text);
  // Neither may break the line: CR and LF become spaces. `message` of an error starts with its code ("ERR
  // …").
  void Simple(std::string_view text) { Line('+', text); }
  void Error(std::string_view message) { Line('-', message); }
  void Ok() { out_.append("+OK\r\n", 5); }
  void Null();
  void NullArray();
  // Headers; the caller writes `elements`, or `pairs` times key and value, after them.
  void Array(size_t elements) { Header('*', elements); }
  void Map(size_t pairs);

  Protocol protocol() const { return protocol_; }

 private:
  void Line(char type, std::string_view text);
  void Header(char type, size_t count);

  std::string& out_;
  const Protocol protocol_;
};

// One command as a client sends it: a multibulk of the arguments.
void AppendCommand(std::string& out, std::span<const std::string_view> args);
void AppendCommand(std::string& out, std::initializer_list<std::string_view> args);

}  // namespace penstock::resp
