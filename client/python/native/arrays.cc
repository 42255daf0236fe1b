#include "client/python/native/arrays.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <dlpack/dlpack.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace softmax::python {
namespace {

using client::DataType;
using client::SizeOf;

static_assert(std::endian::native == std::endian::little, "tensors travel little-endian");

constexpr int kMaxNumpyRank = 32;

struct BufferRelease {
  void operator()(Py_buffer* buffer) const {
    PyBuffer_Release(buffer);
    delete buffer;
  }
};

struct DlpackRelease {
  void operator()(DLManagedTensor* tensor) const {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
};

// The buffer protocol's format of the types that we may meet, by numpy's names; bfloat16's elements are given as their
// bits. Null: of none of them.
const char* FormatOf(std::string_view name) {
  static constexpr std::pair<std::string_view, const char*> kFormats[] = {
      {"float32", "f"}, {"float16", "e"}, {"float64", "d"}, {"bfloat16", "H"}, {"int8", "b"},   {"int16", "h"},
      {"int32", "i"},   {"int64", "q"},   {"uint8", "B"},   {"uint16", "H"},   {"uint32", "I"}, {"uint64", "Q"}};
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
  }
  return nullptr;
}

// Of the formats that numpy gives its own types; nothing: none of ours, or of another byte order.
std::optional<DataType> TypeOfFormat(const char* format) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64}) {
    if (format != nullptr && std::strcmp(format, FormatOf(NameOf(dtype))) == 0) return dtype;
  }
  return std::nullopt;
}

// Held for ever: the interpreter may be gone when a static object's destructor runs.
struct Numpy {
  py::object asarray, empty, array_type;
  py::object types[5];  // by DataType; numpy itself has no bfloat16

  static const Numpy& Get() {
    static const Numpy* const numpy = [] {
      const py::module_ module = py::module_::import("numpy");
      auto* const made = new Numpy{module.attr("asarray"), module.attr("empty"), module.attr("ndarray"), {}};
      for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64}) {
        made->types[static_cast<int>(dtype)] = module.attr("dtype")(std::string(NameOf(dtype)));
      }
      return made;
    }();
    return *numpy;
  }
};

// A numpy array, and of none of its subclasses.
bool IsPlainArray(py::handle object) {
  return Py_TYPE(object.ptr()) == reinterpret_cast<PyTypeObject*>(Numpy::Get().array_type.ptr());
}

// numpy's type for it.
py::object NumpyType(DataType dtype) {
  if (dtype != DataType::kBFloat16) return Numpy::Get().types[static_cast<int>(dtype)];
  try {
    return py::module_::import("numpy").attr("dtype")(py::module_::import("ml_dtypes").attr("bfloat16"));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    throw py::type_error(
        "bfloat16: numpy has no such type without the package ml_dtypes; "
        "pass out= (a torch tensor, say) or dtype='float32'");
  }
}

py::tuple TupleOf(std::span<const std::int64_t> shape) {
  py::tuple tuple(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) tuple[i] = py::int_(shape[i]);
  return tuple;
}

std::string Described(DataType dtype, std::span<const std::int64_t> shape) {
  return absl::StrCat(std::string(NameOf(dtype)), " [", absl::StrJoin(shape, ", "), "]");
}

// Memory that no Python object has, with the buffer protocol, by which numpy makes an array over it.
struct Memory {
  std::shared_ptr<void> held;
  void* data;
  std::string dtype;                        // as numpy names it; bfloat16's elements are given as their bits
  std::string format;                       // of the buffer protocol
  py::ssize_t size;                         // of an element
  std::vector<py::ssize_t> shape, strides;  // strides in bytes

  py::buffer_info Buffer() { return {data, size, format, static_cast<py::ssize_t>(shape.size()), shape, strides}; }
};

std::vector<py::ssize_t> RowMajorStrides(std::span<const py::ssize_t> shape, py::ssize_t size) {
  std::vector<py::ssize_t> strides(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = size;
    // Beside a dimension of 0 the others may be too large to multiply, and what comes out does not matter.
    size = static_cast<py::ssize_t>(static_cast<std::size_t>(size) * static_cast<std::size_t>(shape[i]));
  }
  return strides;
}

Memory MemoryOf(client::Tensor tensor) {
  const auto held = std::make_shared<client::Tensor>(std::move(tensor));
  const DataType dtype = held->dtype();
  const auto size = static_cast<py::ssize_t>(SizeOf(dtype));
  const std::vector<py::ssize_t> shape(held->shape().begin(), held->shape().end());
  return {held,  held->mutable_data().data(), std::string(NameOf(dtype)), FormatOf(NameOf(dtype)), size,
          shape, RowMajorStrides(shape, size)};
}

// What a DLPack type is to numpy: its name, and the buffer protocol's format.
std::pair<std::string, std::string> NameAndFormatOf(const DLDataType& type) {
  static constexpr const char* kKinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string kind =
      type.code < std::size(kKinds) ? kKinds[type.code] : absl::StrCat("type ", int{type.code}, ", ");
  const std::string name = absl::StrCat(kind, int{type.bits}, type.lanes == 1 ? "" : absl::StrCat("x", type.lanes));
  const char* const format = FormatOf(name);
  return {name, format != nullptr ? format : absl::StrCat((type.bits * type.lanes + 7) / 8, "s")};
}

// Of an object's __dlpack__(). ValueError: it is none that can be read.
Memory MemoryOfDlpack(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") == 0) throw py::value_error("its __dlpack__() is no fresh tensor");
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  std::shared_ptr<DLManagedTensor> held(managed, DlpackRelease());
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");  // so that its own end leaves the tensor to us
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.ndim < 0 || tensor.ndim > kMaxNumpyRank) throw py::value_error(absl::StrCat("has rank ", tensor.ndim));
  const std::span<const std::int64_t> dimensions(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  const auto elements = client::ElementsOf(dimensions);
  auto [name, format] = NameAndFormatOf(tensor.dtype);
  const py::ssize_t size = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
  if (!elements || *elements > static_cast<std::uint64_t>(PY_SSIZE_T_MAX / std::max<py::ssize_t>(size, 1))) {
    throw py::value_error(absl::StrCat("has shape [", absl::StrJoin(dimensions, ", "), "]"));
  }
  if (*elements > 0 && tensor.data == nullptr) throw py::value_error("has no memory");
  const std::vector<py::ssize_t> shape(dimensions.begin(), dimensions.end());
  std::vector<py::ssize_t> strides = RowMajorStrides(shape, size);
  for (std::size_t i = 0; tensor.strides != nullptr && i < shape.size(); ++i) {
    if (__builtin_mul_overflow(tensor.strides[i], size, &strides[i])) throw py::value_error("has too large strides");
  }
  void* const data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  return {std::move(held), data, std::move(name), std::move(format), size, shape, std::move(strides)};
}

}  // namespace

std::optional<Borrowed> Borrowed::FromBuffer(py::handle object, int flags, std::optional<DataType> dtype) {
  std::shared_ptr<Py_buffer> buffer(new Py_buffer(), BufferRelease());
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | flags) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (!dtype) dtype = TypeOfFormat(buffer->format);
  if (!dtype) return std::nullopt;
  Borrowed result;
  result.dtype_ = *dtype;
  result.shape_.assign(buffer->shape, buffer->shape + buffer->ndim);
  result.data_ = static_cast<std::byte*>(buffer->buf);
  result.bytes_ = static_cast<std::size_t>(buffer->len);
  result.held_ = std::move(buffer);
  return result;
}

std::optional<Borrowed> Borrowed::FromPlainArray(py::handle object, int flags) {
  return IsPlainArray(object) ? FromBuffer(object, flags, std::nullopt) : std::nullopt;
}

Borrowed Borrowed::FromDevice(const py::tuple& place) {
  Borrowed result;
  result.data_ = reinterpret_cast<std::byte*>(place[0].cast<std::uintptr_t>());
  for (const py::handle dimension : place[1]) result.shape_.push_back(dimension.cast<std::int64_t>());
  result.dtype_ = static_cast<DataType>(place[2].cast<int>());
  const std::span<const std::int64_t> shape(result.shape_.data(), result.shape_.size());
  result.bytes_ = client::ElementsOf(shape).value_or(0) * SizeOf(result.dtype_);
  // Its end needs the GIL, as that of a buffer does.
  py::object owner = place[3];
  result.held_ = std::shared_ptr<PyObject>(owner.release().ptr(), [](PyObject* held) { Py_DECREF(held); });
  result.on_device_ = true;
  return result;
}

Borrowed Borrowed::FromRule(const char* function, const std::string& name, py::handle object, int flags) {
  // An array whose buffer can be taken as it is, and its type's number; or where it lies on a device, and what holds
  // it.
  const py::tuple ruled = py::module_::import("softmax_client.arrays").attr(function)(name, object);
  if (ruled.size() == 4) return FromDevice(ruled);
  auto found = FromBuffer(ruled[0], flags, static_cast<DataType>(ruled[1].cast<int>()));
  if (!found) throw std::runtime_error(name + ": softmax_client.arrays made an array without a buffer");
  return *std::move(found);
}

Borrowed Borrowed::Input(py::handle object, const char* name, std::optional<std::size_t> index) {
  if (auto found = FromPlainArray(object, 0)) {
    const std::size_t rank = found->shape_.size();
    if (rank >= 1 && rank <= client::kMaxRank && found->bytes_ <= INT_MAX) return *std::move(found);
  }
  return FromRule("to_send", index ? absl::StrCat(name, "[", *index, "]") : name, object, 0);
}

Borrowed Borrowed::Output(py::handle object, DataType dtype, std::span<const std::int64_t> shape) {
  auto found = FromPlainArray(object, PyBUF_WRITABLE);
  if (!found) found = FromRule("to_fill", "out", object, PyBUF_WRITABLE);
  const auto& has = found->shape_;
  if (found->dtype_ != dtype || !std::equal(shape.begin(), shape.end(), has.begin(), has.end())) {
    throw py::value_error(absl::StrCat("out: is ", Described(found->dtype_, found->shape_), ", but the answer is ",
                                       Described(dtype, shape)));
  }
  return *std::move(found);
}

py::object TorchTensorFor(py::handle x, DataType dtype, std::span<const std::int64_t> shape) {
  const py::handle torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (!torch || IsPlainArray(x) || !py::isinstance(x, torch.attr("Tensor"))) return py::none();
  return torch.attr("empty")(TupleOf(shape), py::arg("dtype") = torch.attr(std::string(NameOf(dtype)).c_str()),
                             py::arg("device") = "cpu");
}

py::object EmptyArray(DataType dtype, std::span<const std::int64_t> shape) {
  return Numpy::Get().empty(TupleOf(shape), NumpyType(dtype));
}

py::object ArrayOf(client::Tensor tensor) {
  const DataType dtype = tensor.dtype();
  const py::object type = NumpyType(dtype);  // before the memory is handed over
  const py::object array = Numpy::Get().asarray(py::cast(MemoryOf(std::move(tensor))));
  return dtype == DataType::kBFloat16 ? array.attr("view")(type) : array;
}

py::tuple SummaryOf(const client::Tensor& answer, std::int32_t axis) {
  using client::Summary;
  const client::Summary& summary = answer.summary();
  std::vector<std::int64_t> shape(answer.shape().begin(), answer.shape().end());
  shape.erase((axis < 0 ? shape.end() : shape.begin()) + axis);
  std::int64_t rows = 1;
  for (const std::int64_t dimension : shape) rows *= dimension;
  const auto array_of = [&](Summary::Part part, const py::object& type, std::size_t size,
                            bool has_number) -> py::object {
    const std::span<const std::byte> bytes = summary.bytes(part);
    if (bytes.empty()) return py::none();
    std::vector<std::int64_t> dimensions = shape;
    if (has_number) dimensions.push_back(static_cast<std::int64_t>(bytes.size() / size) / rows);
    py::object array = Numpy::Get().empty(TupleOf(dimensions), type);
    std::memcpy(reinterpret_cast<void*>(array.attr("ctypes").attr("data").cast<std::uintptr_t>()), bytes.data(),
                bytes.size());
    return array;
  };
  const py::object value = summary.bytes(Summary::kTopValues).empty() && summary.bytes(Summary::kValuesAt).empty()
                               ? py::none()
                               : NumpyType(summary.dtype());
  const std::size_t value_size = SizeOf(summary.dtype());
  const DataType number = summary.log_sum_exp<double>().empty() && summary.entropy<double>().empty()
                              ? DataType::kFloat32
                              : DataType::kFloat64;
  const auto numbers_of = [&](Summary::Part part) { return array_of(part, NumpyType(number), SizeOf(number), false); };
  return py::make_tuple(array_of(Summary::kTopValues, value, value_size, true),
                        array_of(Summary::kTopIndices, py::str("int32"), sizeof(std::int32_t), true),
                        array_of(Summary::kValuesAt, value, value_size, true), numbers_of(Summary::kLogSumExp),
                        numbers_of(Summary::kMaximum), numbers_of(Summary::kEntropy));
}

void BindMemory(py::module_& module) {
  py::class_<Memory>(module, "Memory", py::buffer_protocol())
      .def_buffer(&Memory::Buffer)
      .def_readonly("dtype", &Memory::dtype);
  module.def("memory_of", &MemoryOfDlpack);
}

}  // namespace softmax::python
