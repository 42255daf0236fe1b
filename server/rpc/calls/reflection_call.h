#pragma once

#include "server/rpc/calls/thread_context.h"

namespace softmax::server {

// Offers the server one more call of its reflection to match.
void ArmReflection(ThreadContext& thread);

}  // namespace softmax::server
