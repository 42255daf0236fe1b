#pragma once

#include <absl/status/status.h>
#include <pybind11/pybind11.h>

namespace softmax::python {

// softmax_client.errors makes it, of code, message and the server's advice.
pybind11::object ExceptionOf(const absl::Status& status);

[[noreturn]] void Raise(const absl::Status& status);

}  // namespace softmax::python
