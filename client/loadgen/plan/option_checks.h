#pragma once

#include <string>

#include "client/loadgen/plan/option_flags.h"

namespace softmax::client {

// What single flags cannot know; fills in the rest of raw.plan. Returns what is wrong, in one line; empty: all is well.
std::string CheckTogether(const GivenFlags& given, RawOptions& raw);

}  // namespace softmax::client
