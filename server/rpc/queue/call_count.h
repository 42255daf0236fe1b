#pragma once

#include <cstdint>

namespace softmax::server {

// The calls of one completion queue, from being offered to their last event. gRPC aborts the process where an operation
// begins on a queue that is shut down, and a call that was matched may come out of its queue after everything that was
// refused at the server's shutdown: a queue is shut down when it has no calls. One thread.
class CallCount {
 public:
  // A call is counted as long as it has this.
  class Member {
   public:
    explicit Member(CallCount& count) : count_(count) { ++count_.calls_; }
    ~Member() { --count_.calls_; }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    CallCount& count_;
  };

  std::int64_t calls() const { return calls_; }

 private:
  std::int64_t calls_ = 0;
};

}  // namespace softmax::server
