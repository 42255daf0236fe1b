#pragma once

#include <grpcpp/completion_queue.h>

// In place of gRPC's in the models: the time of every alarm has come when it is set.
namespace grpc {

class Alarm {
 public:
  Alarm() = default;
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() {
    if (queue_ != nullptr && !delivered_) queue_->misused_ = true;
  }
  void Set(CompletionQueue* queue, gpr_timespec /*time*/, void* tag) {
    softmax::simulation::Interleaver::Step();
    queue_ = queue;
    queue->misused_ = queue->misused_ || queue->is_shut_;
    queue->events_.push_back({tag, &delivered_});
    queue->is_empty_ = false;
  }

 private:
  CompletionQueue* queue_ = nullptr;
  bool delivered_ = false;
};

}  // namespace grpc
