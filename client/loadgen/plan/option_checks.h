#pragma once

#include <string>

#include "client/loadgen/plan/option_flags.h"

namespace softmax::client {

// What single flags cannot know; fills in the rest of raw.plan. Returns what is wrong, in one line; empty: all is well.
std::string CheckTogether(const GivenFlags& given, RawOptions& raw);

// The same of where the reports go, which is found out now and not after the run.
std::string CheckOutputs(const Plan& plan);

}  // namespace softmax::client
