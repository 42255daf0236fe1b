#pragma once

#include <optional>
#include <string>

namespace softmax::kernels::bench {

// The files of kernels/bench/suites/, which are part of the program: it is carried to machines without the tree.
std::optional<std::string> BuiltInSuite(const std::string& name);
std::string BuiltInNames();  // "all, axis, ..."

}  // namespace softmax::kernels::bench
