#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/wire/tensor_spec.h"
#include "server/base/region.h"
#include "server/batching/arena.h"
#include "server/batching/charge.h"

namespace softmax::server {

class AdmissionQueue;
struct ConnectionShare;

// Where the parts of a request lie that are in regions (TensorSpec says which), and what keeps them there.
struct RegionPlaces {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* summary = nullptr;
  int device = Region::kHost;  // whose memory any of them is
  std::array<std::shared_ptr<const Region>, 3> held;
};

// Where the payload of an answer is that leaves in its message: the tensor, and the summary as spec().summary_layout()
// has it.
struct AnswerPlaces {  // null: not asked for, or in a region
  const std::byte* output = nullptr;
  const std::byte* summary = nullptr;
};

// What a request is answered with. Its places are inside `span`.
struct Answer : AnswerPlaces {
  absl::Status status;               // not OK: nothing else is meaningful but the times
  const SpanRef* span = nullptr;     // borrowed for the call; copy it to keep the output (null: empty tensor)
  std::uint32_t retry_after_ms = 0;  // with RESOURCE_EXHAUSTED: when to try again
  bool ran = false;
  Nanoseconds queue{0};      // waited for room
  Nanoseconds batch{0};      // waited in its batch for the launch
  Nanoseconds execution{0};  // launch to completion seen
  std::uint64_t batch_rows = 0;
  TimePoint launched{};  // of its batch: tells whether two ran together
};

// A part of a request's input where it was received. Borrowed.
struct InputPiece {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};
using InputPieces = absl::InlinedVector<InputPiece, 32>;

// One caller's request. Owned by the rpc side, borrowed by batching from Submit until Complete, which runs exactly
// once, on the thread of the batcher it was submitted to.
class PendingRequest {
 public:
  virtual ~PendingRequest() = default;

  // Writes spec().input_bytes() bytes, of an input that is in no region. Runs on the batcher's thread or on one of the
  // backlog's.
  virtual void CopyInput(std::byte* destination) = 0;
  // Instead of CopyInput: the parts of the input in their order, spec().input_bytes() together, which stay until
  // Complete. None (the default): it has to be copied.
  virtual void LendInput(InputPieces* pieces) { pieces->clear(); }
  // spec().rows() lengths when spec().has_lengths.
  virtual const std::uint32_t* lengths() const = 0;
  // spec().indices_bytes() of indices.
  virtual const std::int32_t* indices() const { return nullptr; }
  // Whether nobody is there any more to be answered. Any thread.
  virtual bool CallerLeft() const { return false; }
  // Told to each request of a finished batch before the first of them is completed, so that answers that leave for one
  // place can leave together.
  virtual void AnnounceCompletion() {}

  // For batching, when the request lies in a batch of its thread: from now on it is work. Until then it has waited for
  // memory, or others have copied it.
  void BeginWork(TimePoint now);
  // For batching, which ends every request here: the admission queue that let the request in takes note, then Complete
  // answers the caller.
  void Finish(const Answer& answer);

  const TensorSpec& spec() const { return spec_; }
  const RegionPlaces& regions() const { return regions_; }
  // Worked out when it is submitted.
  const Charge& charge() const { return charge_; }
  TimePoint arrived() const { return arrived_; }
  TimePoint deadline() const { return deadline_; }
  // Bytes of the input that the host has copied, in Complete.
  std::uint64_t copied_bytes() const { return copied_; }

 protected:
  TensorSpec spec_;
  RegionPlaces regions_;             // held until Finish
  std::uint64_t message_bytes_ = 0;  // of the message that it came in, as far as that is its own
  TimePoint arrived_;
  TimePoint deadline_ = kNoDeadline;

 private:
  friend class AdmissionQueue;
  friend class Batch;

  // What the admission queue has on its books for this request. Nobody else reads or writes it.
  struct Ticket {
    AdmissionQueue* queue = nullptr;   // null: none let it in, or it is finished
    ConnectionShare* share = nullptr;  // null: the connection has gone
    std::uint32_t units = 0;
    bool is_work = false;  // from BeginWork on
  };

  // Answers the caller. May delete this.
  virtual void Complete(const Answer& answer) = 0;

  Charge charge_;
  Ticket ticket_;
  TimePoint placed_;                 // its bytes are in the batch
  std::uint64_t output_offset_ = 0;  // inside the batch's span
  std::uint64_t summary_offset_ = 0;
  std::uint64_t copied_ = 0;
};

}  // namespace softmax::server
