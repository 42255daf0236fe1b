#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/wire/tags.h"

// What messages are written with, by hand. Every tag has one byte.
namespace softmax {

constexpr std::size_t ScalarSize(std::uint64_t value) { return value == 0 ? 0 : 1 + VarintSize(value); }
constexpr std::size_t BlockSize(std::uint64_t size) { return 1 + VarintSize(size) + size; }

// The messages' sizes are known before they are written: each is written in place, to room that is there already.
inline char* PutVarint(std::uint64_t value, char* at) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}

inline char* PutScalar(std::uint32_t tag, std::uint64_t value, char* at) {
  if (value == 0) return at;
  *at++ = static_cast<char>(tag);
  return PutVarint(value, at);
}

inline char* PutBlockStart(std::uint32_t tag, std::uint64_t size, char* at) {
  *at++ = static_cast<char>(tag);
  return PutVarint(size, at);
}

// Makes room for `size` bytes more, and says where.
inline char* Extend(std::string* out, std::size_t size) {
  const std::size_t begin = out->size();
  out->resize(begin + size);
  return out->data() + begin;
}

// A proto3 string has to be UTF-8, or the caller's parser refuses the whole message; a status may
// quote anything.
inline char* PutText(std::string_view text, char* at) {
  for (const char c : text) *at++ = static_cast<unsigned char>(c) < 0x80 ? c : '?';
  return at;
}

}  // namespace softmax
