#pragma once

#include <optional>

namespace softmax::client {

// softmax-loadgen merge, softmax-loadgen compare: the exit code; nothing: the command line has neither.
std::optional<int> RunCommand(int argc, char** argv);

}  // namespace softmax::client
