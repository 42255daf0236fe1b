#pragma once

#include <cstddef>
#include <memory>

#include "client/loadgen/send/sender.h"

namespace softmax::client {

// Room for `capacity` requests. `home`: the caller's place among those of its thread.
std::unique_ptr<Caller> MakeStreamCaller(SenderThread& thread, std::size_t home, int capacity);

}  // namespace softmax::client
