#pragma once

#include <exception>
#include <string>

namespace CLI {
class App;
}

// What the client's programs share of reading a command line. CLI11 takes long to compile, and stays behind this.
namespace softmax::client {

// As wide as the terminal.
void PrintHelp(const CLI::App& app);

// `error`, or the flag that is not known with the one that it may be a slip of.
std::string WhatIsWrong(const CLI::App& app, const std::exception& error);

}  // namespace softmax::client
