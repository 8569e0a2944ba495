#include "http/chunked.h"

#include <algorithm>

#include "base/ascii.h"
#include "http/characters.h"

namespace penstock::http {
namespace {

// More than any bound of a body needs, and far from overflow. Leading zeros count.
constexpr int kMaxSizeDigits = 15;

}  // namespace

ChunkDecoder::Status ChunkDecoder::StepSize(char c) {
  const int digit = HexValue(c);
  if (digit >= 0) {
    if (++digits_ > kMaxSizeDigits) return Status::kMalformed;
    left_ = left_ * 16 + static_cast<uint64_t>(digit);
    return Move(State::kSize);
  }
  if (state_ == State::kSizeBegin) return Status::kMalformed;
  if (c == '\r') return Move(State::kSizeLf);
  if (c == ';' || c == ' ' || c == '\t') return Move(State::kExtension);
  return Status::kMalformed;
}

ChunkDecoder::Status ChunkDecoder::StepTrailer(char c) {
  if (c == '\r') {
    if (state_ == State::kTrailerBegin) return Move(State::kLastLf);
    return state_ == State::kTrailerValue ? Move(State::kTrailerLf) : Status::kMalformed;
  }
  if (state_ == State::kTrailerValue) return IsControl(c) ? Status::kMalformed : Status::kNeedMore;
  if (c == ':' && state_ == State::kTrailerName) return Move(State::kTrailerValue);
  return IsTokenCharacter(c) ? Move(State::kTrailerName) : Status::kMalformed;
}

ChunkDecoder::Status ChunkDecoder::Step(char c) {
  switch (state_) {
    case State::kSizeBegin:
    case State::kSize:
      return StepSize(c);
    case State::kExtension:
      if (c == '\r') return Move(State::kSizeLf);
      return IsControl(c) ? Status::kMalformed : Status::kNeedMore;
    case State::kSizeLf:
      if (c != '\n') return Status::kMalformed;
      digits_ = 0;
      return Move(left_ == 0 ? State::kTrailerBegin : State::kData);
    case State::kDataCr:
      return c == '\r' ? Move(State::kDataLf) : Status::kMalformed;
    case State::kDataLf:
      return c == '\n' ? Move(State::kSizeBegin) : Status::kMalformed;
    case State::kTrailerBegin:
    case State::kTrailerName:
    case State::kTrailerValue:
      return StepTrailer(c);
    case State::kTrailerLf:
      return c == '\n' ? Move(State::kTrailerBegin) : Status::kMalformed;
    case State::kLastLf:
      return c == '\n' ? Move(State::kDone) : Status::kMalformed;
    case State::kData:
    case State::kDone:
      break;
  }
  return Status::kMalformed;
}

ChunkDecoder::Status ChunkDecoder::Decode(std::string_view& input, std::string& body, size_t max_body_bytes,
                                          size_t max_framing_bytes) {
  while (!input.empty()) {
    if (state_ == State::kData) {
      if (left_ > max_body_bytes - body.size()) return Status::kBodyTooLarge;
      const size_t taken = static_cast<size_t>(std::min<uint64_t>(left_, input.size()));
      body.append(input.substr(0, taken));
      input.remove_prefix(taken);
      left_ -= taken;
      if (left_ == 0) state_ = State::kDataCr;
      continue;
    }
    const Status status = Step(input.front());
    if (status != Status::kNeedMore) return status;
    input.remove_prefix(1);
    if (state_ == State::kDone) return Status::kDone;
    const bool optional_part = state_ == State::kExtension || state_ >= State::kTrailerName;
    if (optional_part && ++framing_bytes_ > max_framing_bytes) return Status::kFramingTooLarge;
  }
  return Status::kNeedMore;
}

}  // namespace penstock::http
