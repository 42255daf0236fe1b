#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <pybind11/pybind11.h>

#include <string>

namespace softmax::python {

// softmax_client.errors makes it, of code, message and the server's advice.
pybind11::object ExceptionOf(const absl::Status& status);

[[noreturn]] void Raise(const absl::Status& status);

// A wrong value in an error's text, as softmax_client.arrays shows it.
std::string Shown(pybind11::handle value);

// The argument `name` as a T. TypeError: it is none; `wanted` says in words what a T is.
template <typename T>
T Argument(const char* name, pybind11::handle value, const char* wanted) {
  try {
    return value.cast<T>();
  } catch (const pybind11::cast_error&) {
    throw pybind11::type_error(absl::StrCat(name, ": ", Shown(value), ", must be ", wanted));
  }
}

inline constexpr char kNumber[] = "a number of at most 1.8e308";
inline constexpr char kWholeNumber[] = "a whole number of at most 64 bits";
inline constexpr char kBoolean[] = "True or False";
inline constexpr char kText[] = "a str";

}  // namespace softmax::python
