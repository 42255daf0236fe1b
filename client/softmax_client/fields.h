#pragma once

#include <cstdint>
#include <string>

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

inline bool ReadText(WireCursor* cursor, std::string* out) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  out->resize(length);
  cursor->Read(length, out->data());
  return true;
}

}  // namespace softmax::client
