#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/wire/slices.h"

namespace softmax {

// Why bytes are not a protobuf message; or, from kManyFields on, why they are read no further.
enum class WireFault : std::uint8_t {
  kNone,
  kTruncated,       // the message ends inside a field
  kLongVarint,      // a value of more than 10 bytes
  kLongTag,         // a tag of more than 5 bytes
  kLongLength,      // a length of more than 5 bytes, or of 2 GiB and more
  kLengthPastEnd,   // a length that exceeds what is left of the enclosing message
  kFieldZero,       // field number 0
  kWireType,        // wire types 6 and 7 do not exist
  kStrayEndGroup,   // an end of a group that was not begun, or of another than the innermost
  kOpenGroup,       // the message ends inside a group
  kDeepNesting,     // more groups in one another than the generated parser takes
  kPackedOverhang,  // the last value of a packed field runs past the field's length
  kNotUtf8,         // a string of other bytes
  kManyFields,      // more of something than bounds.h allows
  kManyElements,
  kManyDimensions,
  kManyParameters,
  kLongText,
  kOutOfSteps,  // more work than LimitSteps allows
};

// Reads forward through a message that lies in slices, and never past a limit: the only reader of untrusted bytes, for
// requests and answers alike. The path inside one slice is inline; only what straddles a boundary is read byte by byte.
// A value type: a copy is a bookmark. Borrows the slices.
//
// What is read can be bounded: LimitFields and LimitSteps; without them there is no bound.
//
// Every Read returns false on a fault, after which fault() says what and position() where; the
// cursor is then good for nothing else. What is accepted, down to bits that are dropped, equals the
// generated parser.
class WireCursor {
 public:
  WireCursor() = default;
  explicit WireCursor(Slices slices) : slices_(slices) {
    for (const auto& slice : slices) limit_ += slice.size();
    if (slices.empty()) return;
    ptr_ = slices[0].data();
    ClipPiece();
  }

  std::uint64_t position() const { return piece_end_offset_ - static_cast<std::uint64_t>(piece_end_ - ptr_); }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t remaining() const { return limit_ - position(); }
  bool AtLimit() const { return ptr_ == piece_end_ && piece_end_offset_ == limit_; }
  WireFault fault() const { return fault_; }
  // The length, tag or depth that was refused.
  std::uint64_t fault_value() const { return fault_value_; }

  // How many more fields may be read (ReadTag), in groups, too; the fault has `count`. A field that turns out to be one
  // of many values is given back.
  void LimitFields(std::uint64_t count) { fields_left_ = max_fields_ = count; }
  void GiveFieldBack() { ++fields_left_; }

  // How much more work may be done. A step is a field, a byte of packed numbers, or 16 bytes that are looked at: some
  // nanoseconds. A fault before the work.
  void LimitSteps(std::uint64_t count) { steps_left_ = count; }
  bool Spend(std::uint64_t steps) {
    if (steps > steps_left_) return Fail(WireFault::kOutOfSteps, 0);
    steps_left_ -= steps;
    return true;
  }
  bool SpendBytes(std::uint64_t size) { return Spend(size / 16); }
  std::uint64_t steps_left() const { return steps_left_; }

  // For a bookmark at what has been read already, so that it can be read again.
  void LiftLimits() {
    LimitFields(UINT64_MAX);
    LimitSteps(UINT64_MAX);
  }

  // Values longer than 64 bits lose their upper bits, as in the generated parser.
  bool ReadVarint(std::uint64_t* value) {
    if (ptr_ < piece_end_ && *ptr_ < 0x80) [[likely]] {
      *value = *ptr_++;
      return true;
    }
    return ReadLongVarint(value);
  }

  // At most 5 bytes; bits above 32 are dropped. Field number 0 is a fault.
  bool ReadTag(std::uint32_t* tag) {
    if (fields_left_ == 0) return Fail(WireFault::kManyFields, max_fields_);
    --fields_left_;
    if (!Spend(1)) return false;
    if (ptr_ < piece_end_ && *ptr_ < 0x80 && *ptr_ >= 8) [[likely]] {
      *tag = *ptr_++;
      return true;
    }
    return ReadLongTag(tag);
  }

  // A length that fits into what is left.
  bool ReadLength(std::uint64_t* length) {
    if (ptr_ < piece_end_ && *ptr_ < 0x80) [[likely]] {
      *length = *ptr_++;
    } else if (!ReadLongLength(length)) {
      return false;
    }
    return *length <= remaining() || Fail(WireFault::kLengthPastEnd, *length);
  }

  bool ReadFixed64(std::uint64_t* value) {
    std::uint8_t bytes[8];
    if (remaining() < sizeof(bytes)) return Fail(WireFault::kTruncated, remaining());
    Read(sizeof(bytes), bytes);
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(value, bytes, sizeof(bytes));
    return true;
  }

  bool Skip(std::uint64_t size) {
    if (size > remaining()) return Fail(WireFault::kTruncated, remaining());
    SkipInside(size);
    return true;
  }
  void SkipToLimit() { SkipInside(remaining()); }

  // Copies `size` bytes and moves past them; size <= remaining().
  void Read(std::uint64_t size, void* destination);

  // Skips the value of a field that nobody knows. `depth` is how many groups may be open in one
  // another.
  bool SkipField(std::uint32_t tag, int depth);

  // Lowers the limit to `length` bytes from here, length <= remaining(); returns the old limit for
  // Widen.
  std::uint64_t Narrow(std::uint64_t length) {
    const std::uint64_t old = limit_;
    limit_ = position() + length;
    ClipPiece();
    return old;
  }
  void Widen(std::uint64_t old_limit) {
    limit_ = old_limit;
    ClipPiece();
  }

  [[gnu::cold]] bool Fail(WireFault fault, std::uint64_t value) {
    fault_ = fault;
    fault_value_ = value;
    return false;
  }

 private:
  bool ReadLongVarint(std::uint64_t* value);
  bool ReadLongTag(std::uint32_t* tag);
  bool ReadLongLength(std::uint64_t* length);
  bool ReadByte(std::uint8_t* byte);
  bool SkipGroup(std::uint32_t tag, int depth);
  bool SkipPlain(std::uint32_t tag);
  bool NextPiece();
  void SkipInside(std::uint64_t size) {
    if (size <= static_cast<std::uint64_t>(piece_end_ - ptr_)) [[likely]] {
      ptr_ += size;
    } else {
      SkipPieces(size);
    }
  }
  void SkipPieces(std::uint64_t size);

  // Lets the readable piece end with the current slice or at the limit, whichever comes first.
  void ClipPiece() {
    if (slices_.empty()) return;
    const auto& slice = slices_[index_];
    const std::uint64_t slice_end = slice_offset_ + slice.size();
    piece_end_offset_ = slice_end < limit_ ? slice_end : limit_;
    piece_end_ = slice.data() + (piece_end_offset_ - slice_offset_);
  }

  const std::uint8_t* ptr_ = nullptr;
  const std::uint8_t* piece_end_ = nullptr;
  std::uint64_t piece_end_offset_ = 0;  // of piece_end_ in the message
  std::uint64_t limit_ = 0;             // end of the innermost message, as an offset in the whole
  Slices slices_;
  std::size_t index_ = 0;           // the slice that ptr_ is in
  std::uint64_t slice_offset_ = 0;  // of that slice's first byte
  std::uint64_t fields_left_ = UINT64_MAX;
  std::uint64_t max_fields_ = UINT64_MAX;
  std::uint64_t steps_left_ = UINT64_MAX;
  std::uint64_t fault_value_ = 0;
  WireFault fault_ = WireFault::kNone;
};

// Calls on_field(tag) for each field up to the cursor's limit; on_field reads or skips the value and returns false when
// it is malformed.
template <typename OnField>
bool ForEachField(WireCursor* cursor, OnField on_field) {
  while (!cursor->AtLimit()) {
    std::uint32_t tag;
    if (!cursor->ReadTag(&tag) || !on_field(tag)) return false;
  }
  return true;
}

// The same inside one length-delimited value.
template <typename OnField>
bool ForEachFieldInside(WireCursor* cursor, OnField on_field) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  const std::uint64_t outer = cursor->Narrow(length);
  if (!ForEachField(cursor, on_field)) return false;
  cursor->Widen(outer);
  return true;
}

// Calls `add(value)` for each value of a packed field, which must end where the last value ends. An `add` that returns
// false has found a fault.
template <typename Add>
bool ReadPacked(WireCursor* cursor, Add add) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length) || !cursor->Spend(length)) return false;
  const std::uint64_t outer = cursor->Narrow(length);
  while (!cursor->AtLimit()) {
    std::uint64_t value;
    if (!cursor->ReadVarint(&value)) {
      if (cursor->fault() == WireFault::kTruncated) cursor->Fail(WireFault::kPackedOverhang, length);
      return false;
    }
    if constexpr (std::is_void_v<decltype(add(value))>) {
      add(value);
    } else if (!add(value)) {
      return false;
    }
  }
  cursor->Widen(outer);
  return true;
}

}  // namespace softmax
