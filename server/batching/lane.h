#pragma once

#include <deque>

#include "server/batching/batch.h"

namespace softmax::server {

// The first of a queue of batches, taken from it; null: there is none.
inline Batch* TakeFront(std::deque<Batch*>& batches) {
  if (batches.empty()) return nullptr;
  Batch* const first = batches.front();
  batches.pop_front();
  return first;
}

// Runs closed batches. Implemented by execution/, seen by batching only through this. Every call is made by the
// batcher's thread; a lane belongs to one batcher.
class Lane {
 public:
  virtual ~Lane() = default;

  // Starts the batch without waiting for it (a batch too small to be worth handing over may be run here and now). The
  // batch is the lane's until Poll returns it; it is returned exactly once, with batch.status set.
  virtual void Launch(Batch* batch) = 0;

  // Whether Launch would run the batch as it is now here and now, so that it need not wait for others to finish. Pure.
  virtual bool RunsAtOnce(const Batch& /*batch*/) const { return false; }

  // Largest Batch::input_bytes() of a batch that may have pieces to gather; 0: none may. Any thread; never changes.
  virtual std::uint64_t gather_bytes() const { return 0; }

  // A finished batch, or null. Never waits.
  virtual Batch* Poll() = 0;

  // True: nothing tells the batcher of a completion, it has to poll while batches are in flight. False: the lane calls
  // the wake function it was made with.
  virtual bool needs_polling() const = 0;
};

}  // namespace softmax::server
