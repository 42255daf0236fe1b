#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/simulation/script.h"

namespace softmax::simulation {

struct Outcome {
  std::string violation;    // empty: everything held
  std::uint64_t trace = 0;  // a hash of everything that happened, in its order
  std::uint64_t requests = 0;
  std::uint64_t answered = 0;  // with OK
  std::uint64_t events = 0;
};

// Runs the server's batching as the script says, with a time of its own, in this thread: queue threads take turns,
// devices and clients act when their time has come. Of the product there are Arena, AdmissionQueue, Batcher, Batch,
// Backlog, Devices, WatchedLane and LeastLoadedLane. What has to hold is checked all along (checkers.h).
//
// `tell` (null: nobody listens) is called with a line for everything that happens.
Outcome RunWorld(const Script& script, const std::function<void(const std::string&)>& tell = nullptr);

}  // namespace softmax::simulation
