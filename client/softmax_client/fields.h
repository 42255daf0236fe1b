#pragma once

#include <cstdint>
#include <string>

#include "server/wire/cursor.h"
#include "server/wire/tags.h"

// Walks the fields of a protobuf message.
namespace softmax::client {

// Skips the value of a field that nobody knows. Groups are refused: this contract has none.
inline bool SkipField(server::WireCursor* cursor, std::uint32_t tag) { return cursor->SkipField(tag, /*depth=*/0); }

// Calls on_field(tag) for each field up to the cursor's limit; on_field reads or skips the value and returns false when
// it is malformed.
template <typename OnField>
bool ForEachField(server::WireCursor* cursor, OnField on_field) {
  while (!cursor->AtLimit()) {
    std::uint32_t tag;
    if (!cursor->ReadTag(&tag) || !on_field(tag)) return false;
  }
  return true;
}

// The same inside one length-delimited value.
template <typename OnField>
bool ForEachFieldInside(server::WireCursor* cursor, OnField on_field) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  const std::uint64_t outer = cursor->Narrow(length);
  if (!ForEachField(cursor, on_field)) return false;
  cursor->Widen(outer);
  return true;
}

inline bool ReadText(server::WireCursor* cursor, std::string* out) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  out->resize(length);
  cursor->Read(length, out->data());
  return true;
}

}  // namespace softmax::client
