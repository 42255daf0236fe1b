#pragma once

#include <absl/container/inlined_vector.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/softmax_client/types.h"

// From Python's arrays to views of their memory, and back to numpy arrays. All of it needs the GIL.
namespace softmax::python {

namespace py = pybind11;

// The memory of a Python object, held until this ends; the object cannot give it away meanwhile.
class Borrowed {
 public:
  // A tensor to send, without a copy if it is row-major without gaps and native. What is taken, and what is refused
  // with a TypeError or ValueError that names it `name` or name[index], is softmax_client.arrays' to say; but plain
  // numpy arrays of float32, float16 and float64 need nobody to ask.
  static Borrowed Input(py::handle object, const char* name, std::optional<std::size_t> index = std::nullopt);

  // Where an answer goes: `out`, by the same rule; writable, row-major without gaps, of that type and shape.
  static Borrowed Output(py::handle object, client::DataType dtype, std::span<const std::int64_t> shape);

  client::TensorView view() const { return {dtype_, shape_, {data_, bytes_}}; }
  std::span<std::byte> writable() const { return {data_, bytes_}; }
  // Device memory, which only the server can use, if it is a region's.
  bool on_device() const { return on_device_; }

 private:
  // Nothing: it is not row-major without gaps, not writable as `flags` ask, or, if no `dtype` is told, of another type.
  static std::optional<Borrowed> FromBuffer(py::handle object, int flags, std::optional<client::DataType> dtype);
  static std::optional<Borrowed> FromPlainArray(py::handle object, int flags);
  static Borrowed FromDevice(const py::tuple& place);
  static Borrowed FromRule(const char* function, const std::string& name, py::handle object, int flags);

  std::shared_ptr<void> held_;  // gives the memory back to its object
  client::DataType dtype_ = client::DataType::kFloat32;
  absl::InlinedVector<std::int64_t, client::kMaxRank> shape_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool on_device_ = false;
};

// A new numpy array. TypeError: bfloat16 without the package ml_dtypes.
py::object EmptyArray(client::DataType dtype, std::span<const std::int64_t> shape);

// Where the answer to a tensor of torch goes: a new one on the CPU. None: x is no tensor of torch.
py::object TorchTensorFor(py::handle x, client::DataType dtype, std::span<const std::int64_t> shape);

// A numpy array over the answer's own memory.
py::object ArrayOf(client::Tensor tensor);

// The summary of an answer's rows along `axis`: (top_values, top_indices, values_at, log_sum_exp, maximum, entropy),
// each a numpy array of the tensor's shape without the axis, the first three with their number behind it. None: it has
// none.
py::tuple SummaryOf(const client::Tensor& answer, std::int32_t axis);

// Memory, which ArrayOf's arrays keep alive, and memory_of(capsule), which makes it of DLPack's.
void BindMemory(py::module_& module);

}  // namespace softmax::python
