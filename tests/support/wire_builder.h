#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Protobuf bytes by hand, right or wrong: what no generated class would write.
namespace softmax::testing {

// In `bytes` bytes, padded with needless continuation bytes; 0: the shortest form.
inline std::string Varint(std::uint64_t value, int bytes = 0) {
  std::string out;
  for (int i = 1; value >= 0x80 || i < bytes; ++i, value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
  return out;
}

inline std::string Tag(std::uint32_t field, std::uint32_t wire_type, int bytes = 0) {
  return Varint(std::uint64_t{field} << 3 | wire_type, bytes);
}

// A negative value has ten bytes, as protobuf sign-extends it.
inline std::string Scalar(std::uint32_t field, std::int64_t value) {
  return Tag(field, 0) + Varint(static_cast<std::uint64_t>(value));
}

inline std::string Block(std::uint32_t field, std::string_view bytes) {
  return Tag(field, 2) + Varint(bytes.size()) + std::string(bytes);
}

inline std::string Double(std::uint32_t field, double value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return Tag(field, 1) + bytes;
}

inline std::string Packed(std::uint32_t field, const std::vector<std::int64_t>& values) {
  std::string bytes;
  for (const std::int64_t value : values) bytes += Varint(static_cast<std::uint64_t>(value));
  return Block(field, bytes);
}

// `depth` groups in one another.
inline std::string Groups(std::uint32_t field, int depth) {
  std::string out;
  for (int i = 0; i < depth; ++i) out += Tag(field, 3);
  for (int i = 0; i < depth; ++i) out += Tag(field, 4);
  return out;
}

// Tensor fields.
inline std::string Dtype(std::int64_t value) { return Scalar(1, value); }
inline std::string Shape(const std::vector<std::int64_t>& dims) { return Packed(2, dims); }
inline std::string Data(std::size_t size) { return Block(15, std::string(size, '\x3c')); }
inline std::string Tensor(std::int64_t dtype, const std::vector<std::int64_t>& dims, std::size_t data_size) {
  return Dtype(dtype) + Shape(dims) + Data(data_size);
}

// Request fields.
inline std::string Input(std::string_view tensor) { return Block(15, tensor); }
inline std::string Lengths(const std::vector<std::int64_t>& values) { return Packed(6, values); }

}  // namespace softmax::testing
