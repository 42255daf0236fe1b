#pragma once

namespace softmax::client {

// "UNAVAILABLE" of a grpc::StatusCode; "UNKNOWN" for what is none.
const char* CodeName(int code);

}  // namespace softmax::client
