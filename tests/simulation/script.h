#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "kernels/types.h"
#include "server/batching/admission_queue.h"
#include "server/batching/backlog.h"
#include "server/batching/batcher.h"

namespace softmax::simulation {

// The server that a seed makes: small, so that everything that can run short does. Times are short likewise.
struct Settings {
  std::uint32_t threads = 1;
  std::uint32_t devices = 1;
  std::uint32_t fillers = 1;  // the backlog's threads
  std::uint32_t connections = 1;
  std::uint32_t slab_bytes = 256;
  std::uint32_t slabs = 64;
  bool lanes_poll = true;  // otherwise they wake their thread
  Nanoseconds device_timeout{0};
  Nanoseconds drain_timeout{0};
  Nanoseconds latency{0};  // of a batch, at least
  server::Batcher::Options batcher;
  server::AdmissionQueue::Options admission;
  std::uint64_t unread_bytes = UINT64_MAX;  // of all connections
  server::Backlog::Options backlog;
};

// Something that comes from outside.
struct Action {
  enum class Kind : std::uint8_t {
    kRequest,  // arrives on `connection`
    kHangUp,   // `connection` goes with all its requests, and comes back as a new one
    kFail,     // the next batch of `device` fails, and it never works again
    kHang,     // the next batch of `device` and all after it never come back
    kLose,     // another thread loses `device` when it is chosen next, before the batch is launched
    kPause,    // `thread` does not run for `span`
    kDrain,    // no request is taken any more; after drain_timeout those that wait for memory are failed
  };
  Kind kind = Kind::kRequest;
  std::uint32_t id = 0;  // of the script's actions; its random numbers depend on it
  Nanoseconds at{0};
  std::uint32_t connection = 0;
  std::uint32_t device = 0;
  std::uint32_t thread = 0;
  Nanoseconds span{0};

  // A request.
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  kernels::DataType input = kernels::DataType::kFloat32;
  kernels::DataType output = kernels::DataType::kFloat32;
  kernels::Operation operation = kernels::Operation::kSoftmax;
  bool has_lengths = false;
  bool streamed = false;
  bool half_scale = false;
  // Its region, which its client ends as soon as the request has arrived.
  bool input_in_region = false;
  bool output_in_region = false;
  bool in_place = false;  // where both are, and of one size
  std::int32_t region_device = server::Region::kHost;
  Nanoseconds deadline{0};      // from its arrival; 0: none
  Nanoseconds leaves_after{0};  // its caller; 0: stays
  Nanoseconds reads_after{0};   // how long the answer waits to be sent
};

struct Script {
  std::uint64_t seed = 0;
  Settings settings;
  std::vector<Action> actions;  // by time
};

// Everything about the run of a seed but what the server does.
Script MakeScript(std::uint64_t seed, std::uint32_t requests);

std::string Describe(const Settings& settings);
std::string Describe(const Action& action);

}  // namespace softmax::simulation
