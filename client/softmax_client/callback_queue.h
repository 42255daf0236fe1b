#pragma once

#include <grpcpp/completion_queue.h>

#include <mutex>
#include <thread>

namespace softmax::client {

// Something that waits on a completion queue; its address is the tag.
class QueueEvent {
 public:
  virtual void OnEvent(bool ok) = 0;

 protected:
  ~QueueEvent() = default;
};

// Sends an event on to one of its owner's methods.
template <typename Owner>
class Step final : public QueueEvent {
 public:
  Step(Owner* owner, void (Owner::*method)(bool)) : owner_(owner), method_(method) {}
  void OnEvent(bool ok) override { (owner_->*method_)(ok); }
  void* tag() { return static_cast<QueueEvent*>(this); }

 private:
  Owner* owner_;
  void (Owner::*method_)(bool);
};

// A completion queue with the one thread that runs all callbacks of a client. The thread starts
// with the first use.
class CallbackQueue {
 public:
  ~CallbackQueue() {
    queue_.Shutdown();
    if (thread_.joinable()) thread_.join();
  }

  grpc::CompletionQueue* Get() {
    std::call_once(started_, [this] { thread_ = std::thread([this] { Run(); }); });
    return &queue_;
  }

 private:
  void Run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) static_cast<QueueEvent*>(tag)->OnEvent(ok);
  }

  grpc::CompletionQueue queue_;
  std::once_flag started_;
  std::thread thread_;
};

}  // namespace softmax::client
