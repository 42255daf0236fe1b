#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/base/security_flags.h"
#include "client/cli/files.h"
#include "client/softmax_client/options.h"
#include "client/softmax_client/types.h"

namespace softmax::client {

enum class Action { kSoftmax, kInfo, kHealth };

struct CliOptions {
  Action action = Action::kSoftmax;
  std::string address = "localhost:50051";
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  int attempts = RetryOptions().max_attempts;
  bool regions = false;
  bool trace = false;  // the call begins a trace of its own
  Credentials security;

  std::string input = "-";
  std::string output = "-";
  Format format = Format::kAuto;      // of the input
  std::optional<DataType> dtype;      // sent as; unset: the file's (text: float32)
  bool overflow_to_infinity = false;  // what is too large for `dtype` becomes infinite, instead of an error
  std::optional<DataType> output_dtype;
  std::optional<Operation> operation;
  std::optional<std::int32_t> axis;
  std::optional<double> scale;
  std::vector<std::uint32_t> lengths;

  // What is printed of each row instead of the tensor; nothing of these: the tensor.
  std::uint32_t top = 0;
  std::vector<std::int32_t> at;
  bool log_sum_exp = false;
  bool entropy = false;
  std::string labels;  // a file with the names of the axis's elements, one a line; empty: none
  bool wants_summary() const { return top > 0 || !at.empty() || log_sum_exp || entropy; }

  std::string service;               // --health
  std::chrono::nanoseconds wait{0};  // --health: how long it may take to be serving
};

// What the library is told of these.
ClientOptions ForClient(const CliOptions& options);

// Reads the command line. Nothing: the program is to end with `*exit_code`, and what there is to
// say was said.
std::optional<CliOptions> ParseCliCommandLine(int argc, char** argv, int* exit_code);

}  // namespace softmax::client
