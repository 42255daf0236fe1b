#include "client/python/native/errors.h"

#include <string>

#include "client/softmax_client/softmax_client.h"

namespace softmax::python {

namespace py = pybind11;

py::object ExceptionOf(const absl::Status& status) {
  const auto retry_after = client::RetryAfter(status);
  return py::module_::import("softmax_client.errors")
      .attr("error_of")(static_cast<int>(status.code()), std::string(status.message()),
                        retry_after ? py::object(py::float_(retry_after->count() / 1000.0)) : py::none());
}

std::string Shown(py::handle value) {
  return py::module_::import("softmax_client.arrays").attr("shown")(value).cast<std::string>();
}

void Raise(const absl::Status& status) {
  const py::object exception = ExceptionOf(status);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

}  // namespace softmax::python
