#pragma once

#include <cstdint>

namespace softmax::server {

// What a completion queue hands back. One object may have several operations out only if it can tell their ends apart.
class Tag {
 public:
  virtual ~Tag() = default;
  // On the queue's thread. `ok` as gRPC defines it for the operation. May free this.
  virtual void Proceed(bool ok) = 0;
};

// The calls of one completion queue, from being offered to their last event. gRPC aborts the process where an operation
// begins on a queue that is shut down, and a call that was matched may come out of its queue after everything that was
// refused at the server's shutdown: a queue is shut down when it has no calls. One thread.
class CallCount {
 public:
  std::int64_t calls() const { return calls_; }

 private:
  friend class Call;
  std::int64_t calls_ = 0;
};

// A call, made by `new`. It belongs to the operations that it has under way, of which gRPC knows no more than the tags:
// with the last of them nobody knows of the call any more but itself. So it frees itself, here and nowhere else; one
// whose last event never comes, since a device hangs, stays for ever.
class Call : public Tag {
 public:
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 protected:
  explicit Call(CallCount& count) : count_(count) { ++count_.calls_; }
  ~Call() override { --count_.calls_; }
  // When no operation is under way, as the last that is done: nothing of the call may be touched afterwards.
  void Free() { delete this; }

 private:
  CallCount& count_;
};

}  // namespace softmax::server
