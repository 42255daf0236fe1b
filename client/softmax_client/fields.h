#pragma once

#include <cstdint>

#include "client/softmax_client/piece_reader.h"

// Walks the fields of a protobuf message.
namespace softmax::client {

// Wire types.
inline constexpr std::uint32_t kVarint = 0;
inline constexpr std::uint32_t kFixed64 = 1;
inline constexpr std::uint32_t kBytes = 2;

// Calls on_field(field, wire_type) for each field up to the reader's limit; on_field reads or skips
// the value and returns false when it is malformed.
template <typename OnField>
bool ForEachField(PieceReader& reader, OnField on_field) {
  while (reader.remaining() > 0) {
    std::uint64_t tag = 0;
    if (!reader.ReadVarint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) return false;
    if (!on_field(static_cast<std::uint32_t>(tag >> 3), static_cast<std::uint32_t>(tag & 7))) {
      return false;
    }
  }
  return true;
}

// The same inside one length-delimited value.
template <typename OnField>
bool ForEachFieldInside(PieceReader& reader, OnField on_field) {
  std::uint64_t length = 0;
  if (!reader.ReadLength(&length)) return false;
  const std::uint64_t outer = reader.PushLimit(length);
  if (!ForEachField(reader, on_field)) return false;
  reader.PopLimit(outer);
  return true;
}

}  // namespace softmax::client
