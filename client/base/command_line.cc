#include "client/base/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "common/base/help_text.h"
#include "common/base/nearest.h"

namespace softmax::client {

void PrintHelp(const CLI::App& app) { std::fputs(WrapHelp(app.help(), TerminalColumns()).c_str(), stdout); }

std::string WhatIsWrong(const CLI::App& app, const std::exception& error) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back(name);
  }
  const std::string unknown = UnknownFlag(app.remaining(), flags);
  return unknown.empty() ? error.what() : unknown;
}

}  // namespace softmax::client
