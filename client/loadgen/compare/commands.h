#pragma once

#include <optional>

namespace softmax::client {

// softmax-loadgen merge, softmax-loadgen compare: the exit code; nothing: the command line
// begins with a flag.
std::optional<int> RunCommand(int argc, char** argv);

}  // namespace softmax::client
