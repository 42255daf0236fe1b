#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace softmax::client {

// Reads protobuf's primitive encodings from a message that lies in pieces. Every call that returns
// false has met the end of the current limit or a malformed value; the reader must then not be used
// further. Borrows the pieces.
class PieceReader {
 public:
  explicit PieceReader(std::span<const std::span<const std::uint8_t>> pieces) : pieces_(pieces) {
    for (const auto& piece : pieces) limit_ += piece.size();
    Settle();
  }

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return limit_ - position_; }

  // Narrows the reader to the next `size` bytes (which must remain) and returns the old limit for
  // PopLimit.
  std::uint64_t PushLimit(std::uint64_t size) {
    const std::uint64_t old = limit_;
    limit_ = position_ + size;
    return old;
  }
  void PopLimit(std::uint64_t old) { limit_ = old; }

  bool ReadVarint(std::uint64_t* value) {
    std::uint64_t result = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (remaining() == 0) return false;
      const std::uint8_t byte = TakeByte();
      if (shift < 64) result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        *value = result;
        return true;
      }
    }
    return false;
  }

  // A length that fits in what remains.
  bool ReadLength(std::uint64_t* length) { return ReadVarint(length) && *length <= remaining(); }

  bool ReadString(std::uint64_t length, std::string* out) {
    if (length > remaining()) return false;
    out->clear();
    out->reserve(length);
    while (out->size() < length) out->push_back(static_cast<char>(TakeByte()));
    return true;
  }

  bool Skip(std::uint64_t size) {
    if (size > remaining()) return false;
    position_ += size;
    while (size > 0) {
      const std::uint64_t here = pieces_[piece_].size() - offset_;
      const std::uint64_t step = size < here ? size : here;
      offset_ += step;
      size -= step;
      Settle();
    }
    return true;
  }

  // Skips one value of that wire type. Groups are refused: this contract has none.
  bool SkipValue(std::uint32_t wire_type) {
    std::uint64_t value = 0;
    switch (wire_type) {
      case 0:
        return ReadVarint(&value);
      case 1:
        return Skip(8);
      case 2:
        return ReadLength(&value) && Skip(value);
      case 5:
        return Skip(4);
      default:
        return false;
    }
  }

 private:
  std::uint8_t TakeByte() {
    const std::uint8_t byte = pieces_[piece_][offset_++];
    ++position_;
    Settle();
    return byte;
  }
  // Moves past ended and empty pieces.
  void Settle() {
    while (piece_ < pieces_.size() && offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
  }

  std::span<const std::span<const std::uint8_t>> pieces_;
  std::size_t piece_ = 0;
  std::uint64_t offset_ = 0;    // in the current piece
  std::uint64_t position_ = 0;  // in the whole message
  std::uint64_t limit_ = 0;
};

}  // namespace softmax::client
