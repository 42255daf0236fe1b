#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/loadgen/plan/load_options.h"

namespace CLI {
class App;
}  // namespace CLI

// Internal to reading the command line.
namespace softmax::client {

// The plan as far as each flag for itself fills it in, and what cannot be said of it before all flags are known.
struct RawOptions {
  Plan plan;
  SecurityFlags security;
  std::uint64_t payload_bytes = 0;
  double rate = 0;
  std::string trace;
};

// How often each flag was given. Knows them all: at() of a misspelt one ends the program.
using GivenFlags = std::map<std::string, std::size_t>;

// Reads the command line, each flag for itself. Nothing: the program is to end with `*exit_code`, and what there is to
// say was said. CLI11, which takes long to compile, is included behind this alone.
std::optional<GivenFlags> ParseFlags(int argc, char** argv, RawOptions& raw, int* exit_code);

// --json and --html.
void AddOutputFlags(CLI::App& app, Plan& plan);

// What single flags cannot know; fills in the rest of raw.plan. Returns what is wrong, in one line; empty: all is well.
std::string CheckTogether(const GivenFlags& given, RawOptions& raw);

// The same of where the reports go, which is found out now and not after the run.
std::string CheckOutputs(const Plan& plan);

}  // namespace softmax::client
