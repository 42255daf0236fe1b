#include "client/base/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "server/base/help_text.h"
#include "server/base/nearest.h"

namespace softmax::client {

void PrintHelp(const CLI::App& app) {
  std::fputs(server::WrapHelp(app.help(), server::TerminalColumns()).c_str(), stdout);
}

std::string WhatIsWrong(const CLI::App& app, const std::exception& error) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back(name);
  }
  const std::string unknown = server::UnknownFlag(app.remaining(), flags);
  return unknown.empty() ? error.what() : unknown;
}

}  // namespace softmax::client
