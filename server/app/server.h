#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "server/config/config.h"

namespace softmax::server {

// The whole service: memory, devices, threads, ports. Create starts it; Drain stops it in order. One per process is
// usual, several in a test are fine.
class Server {
 public:
  // Listens, starts the threads, tests every lane with a known softmax, and reports ready. The error says what to
  // change; UNAVAILABLE means an address or a device that cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const Config& config);
  // Shuts down at once what is still running.
  virtual ~Server() = default;

  // What is listened on, with the ports that were chosen; clients can connect to these.
  virtual const std::vector<std::string>& addresses() const = 0;
  virtual std::string metrics_address() const = 0;  // empty: none
  virtual std::string health_address() const = 0;   // empty: none

  // Not OK: a device failed for good, and the process should drain and be replaced. Any thread.
  virtual absl::Status health() const = 0;
  // A device hangs, and freeing anything could wait for it: the process is to end without. Any thread.
  virtual bool hangs() const = 0;

  // NOT_SERVING at once; serves on for drain_delay; then refuses new requests, answers every accepted one, and ends.
  // After drain_timeout what is left is cancelled. Blocks; once.
  virtual void Drain() = 0;
  // Makes a running Drain skip what is left of its waits. Any thread.
  virtual void HurryDrain() = 0;

  // Looks at certificates, keys and tokens now; a few times a second is done anyway, in the background. Any thread.
  virtual void RefreshSecrets() = 0;

  // Slabs in use, for tests: 0 once every answer has been read.
  virtual std::uint64_t slabs_used() const = 0;
};

}  // namespace softmax::server
