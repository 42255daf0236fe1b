#include "client/loadgen/measure/code_name.h"

#include "client/loadgen/send/shared_tally.h"

namespace softmax::client {

const char* CodeName(int code) {
  static constexpr const char* kNames[kCodes] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return code >= 0 && code < kCodes ? kNames[code] : "UNKNOWN";
}

}  // namespace softmax::client
