#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/loadgen/measure/board.h"
#include "client/loadgen/plan/workload.h"
#include "client/loadgen/send/sending_region.h"
#include "client/softmax_client/wire.h"
#include "common/base/mutex.h"

namespace softmax::client {

// Checks sampled answers on a thread of its own, so that the sending threads only hand over a
// reference.
//
// The first answer to each variant is judged element by element against a reference in higher
// precision, and kept. Later ones that equal it bit by bit are right too (the server promises equal
// bits for equal rows); one that differs is judged on its own. Thread-safe. Outlived by the
// workload and the tally.
class Verifier {
 public:
  Verifier(const LoadOptions& options, const Workload& workload, ProcessTally& tally);
  ~Verifier();  // Checks what is queued, then returns.

  // An answer to be checked.
  struct Item {
    std::uint32_t variant = 0;
    grpc::ByteBuffer message;
    std::optional<ResponseFields>
        fields;  // of one of a stream's message; empty: `message` is one answer, not yet decoded
    std::optional<PlacedAnswer> placed;  // what did not come in the message

    std::uint64_t bytes() const {
      return message.Length() + (placed ? placed->tensor.size() + placed->summary.size() : 0);
    }
  };

  // Waits when too much is queued: no sampled answer is dropped.
  void Submit(Item item);

 private:
  bool Pop(Item* item);  // waits for one; false: there will be none
  void Run();
  // Why the answer is wrong; empty when it is right.
  std::string Check(Item& item);
  std::string JudgeValues(const Variant& variant, const Tensor& answer) const;

  // Constant after construction.
  const LoadOptions& options_;
  const Workload& workload_;
  ProcessTally& tally_;

  // Used by the thread only: the judged answer to each variant, empty until there is one.
  std::vector<std::vector<std::byte>> known_;

  Mutex mu_;
  ConditionVariable wake_thread_;
  ConditionVariable wake_senders_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mu_);
  std::uint64_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: runs from the end of construction
};

}  // namespace softmax::client
