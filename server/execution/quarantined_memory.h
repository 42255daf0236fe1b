#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "server/batching/lane.h"

namespace softmax::server {

// What a device that was lost may still write, and the lanes that belong to it: never freed and never touched again,
// not even when this goes or the process ends. Thread-safe.
class QuarantinedMemory {
 public:
  QuarantinedMemory();

  // None: of a batch whose tensors all lie in regions.
  void Keep(SpanRef span) ABSL_LOCKS_EXCLUDED(content_->mu);
  void Keep(std::unique_ptr<Lane> lane) ABSL_LOCKS_EXCLUDED(content_->mu);

  // The longest run of bytes without a kept span within the arena [begin, begin + bytes): no request above it will ever
  // find room again.
  std::uint64_t LargestRun(const std::byte* begin, std::uint64_t bytes) const ABSL_LOCKS_EXCLUDED(content_->mu);

 private:
  struct Content {
    Mutex mu;
    std::vector<SpanRef> spans ABSL_GUARDED_BY(mu);
    std::vector<std::unique_ptr<Lane>> lanes ABSL_GUARDED_BY(mu);
  };
  Content* const content_;  // reachable to the end of the process
};

}  // namespace softmax::server
