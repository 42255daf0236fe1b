#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <pybind11/pybind11.h>

#include <string>

namespace softmax::python {

// softmax_client.errors makes it, of code, message and the server's advice.
pybind11::object ExceptionOf(const absl::Status& status);

[[noreturn]] void Raise(const absl::Status& status);

// The argument `name` as a T. TypeError: it is none; `wanted` says in words what a T is.
template <typename T>
T Argument(const char* name, pybind11::handle value, const char* wanted) {
  try {
    return value.cast<T>();
  } catch (const pybind11::cast_error&) {
    throw pybind11::type_error(
        absl::StrCat(name, ": ", pybind11::repr(value).cast<std::string>(), ", must be ", wanted));
  }
}

inline constexpr char kNumber[] = "a number";
inline constexpr char kWholeNumber[] = "a whole number of at most 64 bits";
inline constexpr char kBoolean[] = "True or False";
inline constexpr char kText[] = "a str";

}  // namespace softmax::python
