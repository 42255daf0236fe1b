#pragma once

#include <string>

#include "common/wire/decode.h"
#include "common/wire/oip_decode.h"

// A request of the Open Inference Protocol as the server reads it against the generated parser followed by oip_model.h.
namespace softmax::testing {

// Low enough for random requests to meet them.
WireLimits TightOipLimits();

struct OipTally {
  long refused_by_parser = 0;
  long refused_by_rules = 0;
  long accepted = 0;
  long gathered = 0;
  long several = 0;
  long further = 0;
  long classes = 0;
};

void Compare(const std::string& bytes, Slices slices, const InferRequest& decoded, OipTally* tally);

// Empty when the two are equal, otherwise what differs.
std::string Difference(const InferRequest& a, const InferRequest& b);

}  // namespace softmax::testing
