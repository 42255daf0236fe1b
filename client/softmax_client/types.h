#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

// The rows along the axis, which may be negative: the product of the other dimensions. May wrap around where the shape
// is empty.
std::uint64_t RowsOf(std::span<const std::int64_t> shape, std::int32_t axis);

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

// What of each row's distribution is wanted; "row" means the elements along the axis, and rows come in row-major order
// over the other dimensions. See SummaryRequest in proto/softmax/v1/softmax.proto for what the parts mean.
struct SummaryOptions {
  std::uint32_t top_k = 0;                // the most probable elements; 0: not wanted; at most ServerLimits::max_top_k
  std::span<const std::int32_t> indices;  // the elements at these, as many for each row; -1: none. Empty: not wanted
  bool log_sum_exp = false;               // with the maximum
  bool entropy = false;
  bool full = false;  // the whole tensor, too
  // Where the parts are put instead of memory of the answer's own, exactly SummaryBytes of it, aligned to 8: then the
  // answer's Summary looks at them there. In a region they do not travel. Empty: memory of the answer's own.
  std::span<std::byte> output;

  bool any() const { return top_k > 0 || !indices.empty() || log_sum_exp || entropy; }
};

// The parts of a summary as they were received, in memory of the answer's own, each aligned for its elements. Those
// that were not asked for are empty.
class Summary {
 public:
  // rows * top_k, a row after the other; values<T>() as Tensor's.
  std::span<const std::int32_t> top_indices() const { return As<std::int32_t>(kTopIndices); }
  template <typename T>
  std::span<const T> top_values() const {
    return sizeof(T) == SizeOf(dtype_) ? As<T>(kTopValues) : std::span<const T>();
  }
  // One for each index asked for.
  template <typename T>
  std::span<const T> values_at() const {
    return sizeof(T) == SizeOf(dtype_) ? As<T>(kValuesAt) : std::span<const T>();
  }
  // One a row: float, or double where float64 was sent; otherwise empty.
  template <typename T>
  std::span<const T> log_sum_exp() const {
    return Numbers<T>(kLogSumExp);
  }
  template <typename T>
  std::span<const T> maximum() const {
    return Numbers<T>(kMaximum);
  }
  template <typename T>
  std::span<const T> entropy() const {
    return Numbers<T>(kEntropy);
  }
  DataType dtype() const { return dtype_; }  // of the values

  enum Part : std::uint8_t { kTopValues, kTopIndices, kValuesAt, kLogSumExp, kMaximum, kEntropy, kParts };
  std::span<const std::byte> bytes(Part part) const { return {begin_ + offset_[part], size_[part]}; }

  // For the library: the parts' sizes in bytes, and where they are to be written: `memory`, or, if that is empty,
  // memory of its own.
  Summary() = default;
  Summary(DataType dtype, std::size_t number_size, const std::array<std::uint64_t, kParts>& sizes,
          std::span<std::byte> memory = {});
  std::byte* mutable_part(Part part) { return begin_ + offset_[part]; }

 private:
  template <typename T>
  std::span<const T> As(Part part) const {
    return {reinterpret_cast<const T*>(begin_ + offset_[part]), size_[part] / sizeof(T)};
  }
  template <typename T>
  std::span<const T> Numbers(Part part) const {
    return sizeof(T) == number_size_ ? As<T>(part) : std::span<const T>();
  }

  DataType dtype_ = DataType::kFloat32;
  std::size_t number_size_ = 4;
  std::array<std::size_t, kParts> offset_ = {};
  std::array<std::size_t, kParts> size_ = {};
  std::unique_ptr<std::byte[]> own_;
  std::byte* begin_ = nullptr;
};

// A dense row-major tensor that owns its bytes (aligned for every element type), or holds on to memory that has them.
// Move-only: copies of answers are never made by accident.
class Tensor {
 public:
  Tensor() = default;
  // `size` bytes that are not initialized.
  Tensor(DataType dtype, std::vector<std::int64_t> shape, std::size_t size)
      : dtype_(dtype), shape_(std::move(shape)), size_(size), own_(new std::byte[size]), begin_(own_.get()) {}
  // In memory of somebody else's, which lives as long as `keeper`, or, without one, as long as it is used.
  Tensor(DataType dtype, std::vector<std::int64_t> shape, std::span<std::byte> memory, std::shared_ptr<void> keeper)
      : dtype_(dtype),
        shape_(std::move(shape)),
        size_(memory.size()),
        keeper_(std::move(keeper)),
        begin_(memory.data()) {}

  DataType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::span<const std::byte> data() const { return {begin_, size_}; }
  std::span<std::byte> mutable_data() { return {begin_, size_}; }
  const ServerTiming& timing() const { return timing_; }
  void set_timing(const ServerTiming& timing) { timing_ = timing; }
  // What SoftmaxOptions::summary asked for. Without `full` the tensor has no bytes then, but its shape.
  const Summary& summary() const { return summary_; }
  void set_summary(Summary summary) { summary_ = std::move(summary); }

  // The elements as T, which must be as wide as the element type (float, double or std::uint16_t);
  // otherwise empty.
  template <typename T>
  std::span<const T> values() const {
    if (sizeof(T) != SizeOf(dtype_)) return {};
    return {reinterpret_cast<const T*>(begin_), size_ / sizeof(T)};
  }

 private:
  DataType dtype_ = DataType::kFloat32;
  std::vector<std::int64_t> shape_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> own_;
  std::shared_ptr<void> keeper_;
  std::byte* begin_ = nullptr;
  ServerTiming timing_;
  Summary summary_;
};

}  // namespace softmax::client
