// Takes the chunked coding off a body (RFC 9112, 7.1), for the two parsers of this room only. A machine fed with
// bytes: the outcome depends on the bytes, not on how they were cut. Extensions and trailers are checked for form,
// bounded together, and dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::http {

class ChunkDecoder {
 public:
  enum class Status : uint8_t { kNeedMore, kDone, kMalformed, kBodyTooLarge, kFramingTooLarge };

  // Takes bytes from the front of `input`, appends what they carry to `body`. With kDone the rest of `input` belongs to
  // the next message; with kNeedMore nothing is left.
  Status Decode(std::string_view& input, std::string& body, size_t max_body_bytes, size_t max_framing_bytes);

  void Reset() { *this = ChunkDecoder(); }

 private:
  enum class State : uint8_t {
    kSizeBegin,  // first digit of a size
    kSize,       // further digits
    kExtension,  // up to the line's end
    kSizeLf,     // the line feed of that line
    kData,
    kDataCr,
    kDataLf,
    kTrailerBegin,  // first byte of a trailer line, or the carriage return of the last line
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kLastLf,
    kDone,
  };

  Status Step(char c);
  Status StepSize(char c);
  Status StepTrailer(char c);
  Status Move(State next) {
    state_ = next;
    return Status::kNeedMore;
  }

  State state_ = State::kSizeBegin;
  int digits_ = 0;            // of the present size
  uint64_t left_ = 0;         // of the present chunk
  size_t framing_bytes_ = 0;  // of extensions and trailers so far
};

}  // namespace penstock::http
