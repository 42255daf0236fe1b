#pragma once

#include <absl/status/status.h>

#include <string>

#include "common/wire/decode.h"
#include "softmax/v1/softmax.pb.h"
#include "tests/common/wire/contract_model.h"

// A request as the server reads it against the generated parser followed by contract_model.h.
namespace softmax::testing {

// Low enough for random requests to meet them.
WireLimits TightLimits();

bool LooksCompressed(const std::string& bytes);
bool SaysMalformed(const absl::Status& status);
// The name before a message's colon.
std::string FieldOf(const absl::Status& status);
std::string Hex(const std::string& bytes);

struct NativeTally {
  long refused_by_parser = 0;
  long refused_by_contract = 0;
  long accepted = 0;
  long with_lengths = 0;
  long with_indices = 0;
  long with_summary = 0;
  long with_places = 0;
};

void ExpectEqualToModel(const std::string& bytes, Slices slices, const DecodedRequest& decoded,
                        const v1::SoftmaxRequest& parsed, const Verdict& verdict);

// One request, read as the server would and as protobuf would.
void Compare(const std::string& bytes, Slices slices, const DecodedRequest& decoded, const WireLimits& limits,
             NativeTally* tally);

}  // namespace softmax::testing
