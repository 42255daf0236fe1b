#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "client/loadgen/board.h"
#include "client/loadgen/verifier.h"
#include "client/loadgen/workload.h"

namespace softmax::client {

// Something that waits on the completion queue; its address is the tag.
class Event {
 public:
  virtual void OnEvent(bool ok) = 0;

 protected:
  ~Event() = default;
};

// What all slots of one sending thread share. Used by that thread only.
class SenderThread {
 public:
  SenderThread(const LoadOptions& options, const Workload& workload, const Board& board, Verifier* verifier,
               int process, int thread);

  // Sends on these connections until the window has ended and every answer has come (or was given
  // up).
  void Run(const std::vector<std::shared_ptr<grpc::Channel>>& channels);

  const LoadOptions& options() const { return options_; }
  const Workload& workload() const { return workload_; }
  grpc::CompletionQueue* queue() { return &queue_; }
  Verifier* verifier() { return verifier_; }  // nullptr: only sizes are checked

  // The next variant to send.
  std::uint32_t NextVariant() { return workload_.VariantAt(position_++); }

  // Whether this answer is one of the sampled fraction.
  bool Sample() { return random_() < sample_below_; }

  // Books an answer to a request sent at `sent_ns`. False: no more requests are to be sent.
  bool RecordAnswer(std::uint32_t variant, std::int64_t sent_ns);
  bool RecordError(int code, const std::string& message);
  bool Ended(std::int64_t now_ns) const {
    const std::int64_t end = control_.end_ns.load(std::memory_order_relaxed);
    return end != 0 && now_ns >= end;
  }

  // A slot that has nothing more in flight and sends no more.
  void SlotDone() { --live_slots_; }

 private:
  void MakeSlots(const std::vector<std::shared_ptr<grpc::Channel>>& channels);
  // Gives up what is open for too long after the end.
  void CancelLateSlots();

  const LoadOptions& options_;
  const Workload& workload_;
  const Board& board_;
  Control& control_;
  ThreadTally& tally_;
  Verifier* const verifier_;
  const int process_;
  const int thread_;

  grpc::CompletionQueue queue_;
  std::mt19937_64 random_;
  std::uint64_t sample_below_ = 0;
  std::uint64_t position_ = 0;
  std::size_t live_slots_ = 0;
  bool cancelled_ = false;
  std::vector<std::unique_ptr<class Slot>> slots_;
};

// One or several requests in flight on one connection. Lives on its thread.
class Slot : public Event {
 public:
  virtual ~Slot() = default;
  virtual void Start() = 0;
  virtual void Cancel() = 0;
};

std::unique_ptr<Slot> MakeUnarySlot(SenderThread& thread, std::shared_ptr<grpc::Channel> channel);
std::unique_ptr<Slot> MakeStreamSlot(SenderThread& thread, std::shared_ptr<grpc::Channel> channel);

}  // namespace softmax::client
