#pragma once

#include <cstdint>
#include <string>

#include "common/wire/cursor.h"
#include "common/wire/tags.h"

// Walks the fields of a protobuf message.
namespace softmax::client {

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
