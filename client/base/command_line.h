#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace CLI {
class App;
}

// What the client's programs share of reading a command line. CLI11 takes long to compile, and stays behind this.
namespace softmax::client {

// "10s", "500ms", "200us", "2m", "1h", or plain seconds.
std::optional<std::chrono::nanoseconds> ParseDuration(const std::string& text);

// Reads the command line, --help and --version with it, into what the flags of `app` fill in. False: the program is to
// end with `*exit_code`, and what there is to say was said.
bool ParseArguments(CLI::App& app, int argc, char** argv, int* exit_code);

}  // namespace softmax::client
