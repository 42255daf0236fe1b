#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/wire/cursor.h"
#include "common/wire/tags.h"

// Walks the fields of a protobuf message, and writes some.
namespace softmax::client {

inline void AppendVarint(std::uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

// A number, or the length of what follows.
inline void AppendField(std::uint32_t tag, std::uint64_t value, std::string* out) {
  AppendVarint(tag, out);
  AppendVarint(value, out);
}

// Skips the value of a field that nobody knows. Groups are refused: this contract has none.
inline bool SkipField(WireCursor* cursor, std::uint32_t tag) { return cursor->SkipField(tag, /*depth=*/0); }

// A number, an enumerator or a switch.
template <typename Number>
bool ReadValue(WireCursor* cursor, Number* out) {
  static_assert(std::is_integral_v<Number> || std::is_enum_v<Number>);
  std::uint64_t value;
  if (!cursor->ReadVarint(&value)) return false;
  *out = static_cast<Number>(value);
  return true;
}

inline bool ReadValue(WireCursor* cursor, std::string* out) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  out->resize(length);
  cursor->Read(length, out->data());
  return true;
}

// Bytes of another number are none of ours, and leave `out` as it is.
template <std::size_t N>
bool ReadValue(WireCursor* cursor, std::array<std::uint8_t, N>* out) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  if (length != N) return cursor->Skip(length);
  cursor->Read(N, out->data());
  return true;
}

// A field's tag, and where its value goes.
template <typename T>
struct Into {
  std::uint32_t tag;
  T* place;
};
template <typename T>
Into(std::uint32_t, T*) -> Into<T>;  // which clang 14 asks for

// The value of the field that was just begun goes where `fields` say; of one that they do not have it is skipped.
template <typename... T>
bool ReadField(WireCursor* cursor, std::uint32_t tag, Into<T>... fields) {
  bool good = true;
  const bool known = ((tag == fields.tag && (good = ReadValue(cursor, fields.place), true)) || ...);
  return known ? good : SkipField(cursor, tag);
}

// All fields of a message inside another.
template <typename... T>
bool ReadFields(WireCursor* cursor, Into<T>... fields) {
  return ForEachFieldInside(cursor, [&](std::uint32_t tag) { return ReadField(cursor, tag, fields...); });
}

}  // namespace softmax::client
