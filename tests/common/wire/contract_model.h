#pragma once

#include <string>

#include "common/wire/decode.h"
#include "softmax/v1/softmax.pb.h"

namespace softmax::testing {

// The contract a second time, over the generated message and in wide integers: what the request
// asks for, or the name of the field it is refused for.
struct Verdict {
  std::string field;  // empty: accepted, and the rest holds
  TensorSpec spec;
  std::vector<std::uint32_t> lengths;
  std::vector<std::int32_t> indices;
};

Verdict Judge(const v1::SoftmaxRequest& request, const WireLimits& limits);

}  // namespace softmax::testing
