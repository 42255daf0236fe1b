#pragma once

#include <absl/container/inlined_vector.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <span>

#include "client/softmax_client/types.h"

// From Python's arrays to views of their memory, and back to numpy arrays. All of it needs the GIL.
namespace softmax::python {

namespace py = pybind11;

// The memory of a Python object, held until this ends; the object cannot give it away meanwhile.
class Borrowed {
 public:
  // A tensor to send. Taken without a copy: whatever has the buffer protocol (numpy arrays, array.array, memoryview),
  // then __dlpack__ on the CPU (torch), then __array_interface__, if row-major without gaps and in this machine's byte
  // order. Otherwise copied once by numpy; lists become float32. TypeError: not an array of one of the four types.
  static Borrowed Input(py::handle object);

  // Where an answer goes: writable, row-major without gaps, of that type and shape. TypeError, ValueError: it is not.
  static Borrowed Output(py::handle object, client::DataType dtype, std::span<const std::int64_t> shape);

  client::TensorView view() const { return {dtype_, shape_, {data_, bytes_}}; }
  std::span<std::byte> writable() const { return {data_, bytes_}; }

 private:
  // Nothing: it has gaps or foreign byte order, so numpy must copy it first.
  static std::optional<Borrowed> FromBuffer(py::handle object, int flags);
  static std::optional<Borrowed> FromDlpack(py::handle object, int flags);
  static std::optional<Borrowed> FromAny(py::handle object, int flags);

  std::shared_ptr<void> held_;  // gives the memory back to its object
  client::DataType dtype_ = client::DataType::kFloat32;
  absl::InlinedVector<std::int64_t, client::kMaxRank> shape_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A new numpy array. TypeError: bfloat16 without the package ml_dtypes.
py::object EmptyArray(client::DataType dtype, std::span<const std::int64_t> shape);

// A numpy array over the answer's own memory.
py::object ArrayOf(client::Tensor tensor);

// The summary of an answer's rows along `axis`: (top_values, top_indices, values_at, log_sum_exp, maximum, entropy),
// each a numpy array of the tensor's shape without the axis, the first three with their number behind it. None: it has
// none.
py::tuple SummaryOf(const client::Tensor& answer, std::int32_t axis);

// What ArrayOf's arrays keep alive.
void BindAnswerMemory(py::module_& module);

}  // namespace softmax::python
