#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/wire/oip_decode.h"
#include "common/wire/oip_walk.h"
#include "common/wire/walk.h"

// What the parameters of a ModelInferRequest, its inputs and outputs mean. INVALID_ARGUMENT names parameter, value and
// limit.
namespace softmax {

// The number of a type by its name in the protocol; 0: it is none of ours.
int DtypeOf(std::string_view name);

// What the request says once for all of its inputs. out->model is known.
absl::Status ApplyParameters(const RawInferRequest& raw, const WireLimits& limits, RawRequest* native,
                             InferRequest* out);

// Of a parameter at `place`.
absl::Status ReadTopK(const std::string& place, const InferParameter& parameter, const WireLimits& limits,
                      std::uint32_t* k);

// Of inputs[index] or outputs[index], which `field` names. UNIMPLEMENTED: no files are served.
absl::Status ReadPlace(const std::string& field, std::size_t index, const RawInferPlace& raw, const WireLimits& limits,
                       InferPlace* place);

}  // namespace softmax
