#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/wire/decode.h"
#include "inference/inference.pb.h"

namespace softmax::testing {

inline constexpr const char* kOipTypes[] = {"FP32", "FP16", "BF16", "FP64"};
inline std::size_t OipSizeOf(int dtype) { return dtype == 1 ? 4 : dtype == 4 ? 8 : 2; }

// What a ModelInferRequest is worth: the rules of the protocol and of the native contract, from the generated class.
struct OipVerdict {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> outputs;            // the name of each whole answer
  std::vector<std::set<std::string>> endings;  // what of it is wanted, by the ends of names; "classes": as such
  std::vector<TensorSpec> specs;
  std::vector<std::string> payloads;
  std::uint32_t timeout_us = 0;
};

OipVerdict JudgeInfer(const inference::ModelInferRequest& request, const WireLimits& limits);

}  // namespace softmax::testing
