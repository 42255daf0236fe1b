#include "client/python/native/arrays.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <dlpack/dlpack.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace softmax::python {
namespace {

using client::DataType;
using client::SizeOf;

static_assert(std::endian::native == std::endian::little, "tensors travel little-endian");

constexpr char kKnownTypes[] = "; must be of float32, float16, bfloat16 or float64";

std::string NameOfType(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

// Which argument an array is, by what is asked of its buffer.
const char* FieldOf(int flags) { return (flags & PyBUF_WRITABLE) != 0 ? "out" : "x"; }

// `element` is what it has elements of where it does not say so itself.
[[noreturn]] void RaiseOtherType(int flags, py::handle object, const std::string& element) {
  const py::object dtype = py::getattr(object, "dtype", py::none());
  const std::string type = dtype.is_none() ? element : py::str(dtype).cast<std::string>();
  throw py::type_error(absl::StrCat(FieldOf(flags), ": is a ", NameOfType(object), " of ", type, kKnownTypes));
}

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

// Of the buffer protocol's formats; nothing: none of ours, or of another byte order.
std::optional<DataType> TypeOfFormat(const char* format) {
  if (format == nullptr) return std::nullopt;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (std::strcmp(format, "f") == 0) return DataType::kFloat32;
  if (std::strcmp(format, "e") == 0) return DataType::kFloat16;
  if (std::strcmp(format, "d") == 0) return DataType::kFloat64;
  return std::nullopt;
}

std::optional<DataType> TypeOf(const DLDataType& type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == kDLBfloat && type.bits == 16) return DataType::kBFloat16;
  if (type.code != kDLFloat) return std::nullopt;
  return type.bits == 32   ? std::optional(DataType::kFloat32)
         : type.bits == 16 ? std::optional(DataType::kFloat16)
         : type.bits == 64 ? std::optional(DataType::kFloat64)
                           : std::nullopt;
}

// Strides in units of `unit`; nullptr: row-major.
template <typename Dimension, typename Stride>
bool IsRowMajor(std::span<const Dimension> shape, const Stride* strides, std::int64_t unit) {
  if (strides == nullptr) return true;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t expected = unit;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Held for ever: the interpreter may be gone when a static object's destructor runs.
struct Numpy {
  py::object asarray, empty;
  py::object types[5];  // by DataType; numpy itself has no bfloat16

  static const Numpy& Get() {
    static const Numpy* const numpy = [] {
      const py::module_ module = py::module_::import("numpy");
      auto* const made = new Numpy{module.attr("asarray"), module.attr("empty"), {}};
      for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64}) {
        made->types[static_cast<int>(dtype)] = module.attr("dtype")(std::string(NameOf(dtype)));
      }
      return made;
    }();
    return *numpy;
  }
};

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

// An array with ml_dtypes' element type, of which there is none before that package is loaded.
bool IsNumpyBfloat16(py::handle object) {
  static PyObject* bfloat16 = nullptr;
  if (bfloat16 == nullptr) {
    if (PyDict_GetItemString(PyImport_GetModuleDict(), "ml_dtypes") == nullptr) return false;
    bfloat16 = NumpyType(DataType::kBFloat16).release().ptr();
  }
  const py::object dtype = py::getattr(object, "dtype", py::none());
  return PyObject_RichCompareBool(dtype.ptr(), bfloat16, Py_EQ) == 1;
}

py::object RowMajor(py::handle object, const py::object& type) {
  return Numpy::Get().asarray(object, type, py::arg("order") = "C");
}

// A list as numpy reads it.
py::object FromNumbers(py::handle list) {
  try {
    return RowMajor(list, Numpy::Get().types[static_cast<int>(DataType::kFloat32)]);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    throw py::value_error(absl::StrCat("x: is a ", NameOfType(list),
                                       " that is no array of numbers: ", py::str(error.value()).cast<std::string>()));
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

// An answer's bytes as Python sees them; 16-bit floats of the brain kind as their bits.
struct AnswerMemory {
  client::Tensor tensor;

  py::buffer_info Buffer() {
    const DataType dtype = tensor.dtype();
    const char* format = dtype == DataType::kFloat32   ? "f"
                         : dtype == DataType::kFloat16 ? "e"
                         : dtype == DataType::kFloat64 ? "d"
                                                       : "H";
    const auto size = static_cast<py::ssize_t>(SizeOf(dtype));
    std::vector<py::ssize_t> shape(tensor.shape().begin(), tensor.shape().end());
    std::vector<py::ssize_t> strides(shape.size());
    py::ssize_t stride = size;
    for (std::size_t i = shape.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= shape[i];
    }
    return {tensor.mutable_data().data(), size, format, static_cast<py::ssize_t>(shape.size()), shape, strides};
  }
};

}  // namespace

std::optional<Borrowed> Borrowed::FromBuffer(py::handle object, int flags) {
  std::shared_ptr<Py_buffer> buffer(new Py_buffer(), BufferRelease());
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_FORMAT | PyBUF_STRIDES | flags) != 0) {
    throw py::error_already_set();
  }
  const char* format = buffer->format == nullptr ? "B" : buffer->format;
  const bool foreign = *format == '>';
  const auto dtype = TypeOfFormat(foreign ? format + 1 : format);
  if (!dtype) RaiseOtherType(flags, object, absl::StrCat("elements of the format '", format, "'"));
  const std::span<const Py_ssize_t> shape(buffer->shape, static_cast<std::size_t>(buffer->ndim));
  if (foreign || !IsRowMajor(shape, buffer->strides, buffer->itemsize)) return std::nullopt;
  Borrowed result;
  result.dtype_ = *dtype;
  result.shape_.assign(shape.begin(), shape.end());
  result.data_ = static_cast<std::byte*>(buffer->buf);
  result.bytes_ = static_cast<std::size_t>(buffer->len);
  result.held_ = std::move(buffer);
  return result;
}

std::optional<Borrowed> Borrowed::FromDlpack(py::handle object, int flags) {
  const int device = object.attr("__dlpack_device__")().cast<py::tuple>()[0].cast<int>();
  if (device != kDLCPU && device != kDLCUDAHost && device != kDLROCMHost) {
    throw py::type_error(absl::StrCat(FieldOf(flags), ": is a ", NameOfType(object), " on a device (DLPack's number ",
                                      device, "); must be on the CPU"));
  }
  const py::object capsule = object.attr("__dlpack__")();
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  std::shared_ptr<DLManagedTensor> held(managed, DlpackRelease());
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");  // so that its own end leaves the tensor to us
  const DLTensor& tensor = managed->dl_tensor;
  const auto dtype = TypeOf(tensor.dtype);
  if (!dtype) {
    RaiseOtherType(flags, object,
                   absl::StrCat("elements with DLPack's type code ", int{tensor.dtype.code}, " and ",
                                int{tensor.dtype.bits}, " bits"));
  }
  const std::span<const std::int64_t> shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  const auto elements = client::ElementsOf(shape);
  if (!elements) throw py::value_error(absl::StrCat(FieldOf(flags), ": has too many elements"));
  if (!IsRowMajor(shape, tensor.strides, 1)) return std::nullopt;
  Borrowed result;
  result.dtype_ = *dtype;
  result.shape_.assign(shape.begin(), shape.end());
  result.data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  result.bytes_ = *elements * SizeOf(*dtype);
  result.held_ = std::move(held);
  return result;
}

std::optional<Borrowed> Borrowed::FromAny(py::handle object, int flags) {
  if (IsNumpyBfloat16(object)) {
    // numpy gives out no buffer of such elements, but of their bits.
    if (!object.attr("flags").attr("c_contiguous").cast<bool>()) return std::nullopt;
    auto bits = FromBuffer(object.attr("view")("float16"), flags);
    if (bits) bits->dtype_ = DataType::kBFloat16;
    return bits;
  }
  if (PyObject_CheckBuffer(object.ptr()) != 0) return FromBuffer(object, flags);
  if (py::hasattr(object, "__dlpack__")) return FromDlpack(object, flags);
  return std::nullopt;
}

Borrowed Borrowed::Input(py::handle object) {
  const Numpy& numpy = Numpy::Get();
  if (py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object)) {
    return *FromBuffer(FromNumbers(object), 0);
  }
  if (auto found = FromAny(object, 0)) return *std::move(found);
  // torch's copy keeps its types; everything else can be made a numpy array.
  if (py::hasattr(object, "__dlpack__") && py::hasattr(object, "contiguous")) {
    return *FromDlpack(object.attr("contiguous")(), 0);
  }
  const py::object array = numpy.asarray(object);
  if (array.attr("dtype").attr("kind").cast<std::string>() == "O") {
    throw py::type_error(absl::StrCat("x: is a ", NameOfType(object), ", which is no array", kKnownTypes));
  }
  if (auto found = FromAny(array, 0)) return *std::move(found);
  return *FromAny(RowMajor(array, array.attr("dtype").attr("newbyteorder")("=")), 0);
}

Borrowed Borrowed::Output(py::handle object, DataType dtype, std::span<const std::int64_t> shape) {
  if (PyObject_CheckBuffer(object.ptr()) == 0 && !py::hasattr(object, "__dlpack__")) {
    throw py::type_error(
        absl::StrCat("out: is a ", NameOfType(object), ", which has no memory of its own to write to"));
  }
  auto found = FromAny(object, PyBUF_WRITABLE);
  if (!found) throw py::value_error("out: must be row-major without gaps, in this machine's byte order");
  if (found->dtype_ != dtype || !std::equal(shape.begin(), shape.end(), found->shape_.begin(), found->shape_.end())) {
    throw py::value_error(absl::StrCat("out: is ", Described(found->dtype_, found->shape_), ", but the answer is ",
                                       Described(dtype, shape)));
  }
  return *std::move(found);
}

py::object EmptyArray(DataType dtype, std::span<const std::int64_t> shape) {
  return Numpy::Get().empty(TupleOf(shape), NumpyType(dtype));
}

py::object ArrayOf(client::Tensor tensor) {
  const DataType dtype = tensor.dtype();
  const py::object type = NumpyType(dtype);  // before the memory is handed over
  const py::object array =
      Numpy::Get().asarray(py::cast(std::make_unique<AnswerMemory>(AnswerMemory{std::move(tensor)})));
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

void BindAnswerMemory(py::module_& module) {
  py::class_<AnswerMemory>(module, "AnswerMemory", py::buffer_protocol()).def_buffer(&AnswerMemory::Buffer);
}

}  // namespace softmax::python
