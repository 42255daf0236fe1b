#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The values that callers of the client library pass in and get back. No gRPC and no protobuf type.
namespace softmax::client {

inline constexpr std::size_t kMaxRank = 8;

// Values equal the wire's. The 16-bit types travel as their bits.
enum class DataType : std::uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3, kFloat64 = 4 };
enum class Operation : std::uint8_t { kSoftmax = 1, kLogSoftmax = 2 };

constexpr std::size_t SizeOf(DataType type) {
  return type == DataType::kFloat64 ? 8 : type == DataType::kFloat32 ? 4 : 2;
}

// "float32", "float16", "bfloat16", "float64"; short forms f32, f16, bf16, f64 are read too.
std::string_view NameOf(DataType type);
std::optional<DataType> DataTypeFromName(std::string_view name);

// "softmax", "log_softmax" ("log-softmax" is read too).
std::string_view NameOf(Operation operation);
std::optional<Operation> OperationFromName(std::string_view name);

// The product of the dimensions, or nothing when one is negative or the product times 8 bytes does
// not fit in 63 bits.
std::optional<std::uint64_t> ElementsOf(std::span<const std::int64_t> shape);

// A dense row-major tensor in the caller's memory. Borrows both spans; `data` may have any
// alignment.
struct TensorView {
  DataType dtype = DataType::kFloat32;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> data;
};

inline TensorView ViewOf(std::span<const float> values, std::span<const std::int64_t> shape) {
  return {DataType::kFloat32, shape, std::as_bytes(values)};
}
inline TensorView ViewOf(std::span<const double> values, std::span<const std::int64_t> shape) {
  return {DataType::kFloat64, shape, std::as_bytes(values)};
}
// The bits of 16-bit floats; `dtype` says which kind they are.
inline TensorView ViewOfBits(std::span<const std::uint16_t> bits, DataType dtype, std::span<const std::int64_t> shape) {
  return {dtype, shape, std::as_bytes(bits)};
}

// Where a request's time went inside the server, and how many rows shared its batch.
struct ServerTiming {
  std::uint64_t queue_ns = 0;
  std::uint64_t batch_ns = 0;
  std::uint64_t execution_ns = 0;
  std::uint64_t batch_rows = 0;
};

// A dense row-major tensor that owns its bytes (aligned for every element type). Move-only: copies
// of answers are never made by accident.
class Tensor {
 public:
  Tensor() = default;
  // `size` bytes that are not initialized.
  Tensor(DataType dtype, std::vector<std::int64_t> shape, std::size_t size)
      : dtype_(dtype), shape_(std::move(shape)), size_(size), data_(new std::byte[size]) {}

  DataType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::span<const std::byte> data() const { return {data_.get(), size_}; }
  std::span<std::byte> mutable_data() { return {data_.get(), size_}; }
  const ServerTiming& timing() const { return timing_; }
  void set_timing(const ServerTiming& timing) { timing_ = timing; }

  // The elements as T, which must be as wide as the element type (float, double or std::uint16_t);
  // otherwise empty.
  template <typename T>
  std::span<const T> values() const {
    if (sizeof(T) != SizeOf(dtype_)) return {};
    return {reinterpret_cast<const T*>(data_.get()), size_ / sizeof(T)};
  }

 private:
  DataType dtype_ = DataType::kFloat32;
  std::vector<std::int64_t> shape_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> data_;
  ServerTiming timing_;
};

}  // namespace softmax::client
