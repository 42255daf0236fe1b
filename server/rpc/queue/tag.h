#pragma once

namespace softmax::server {

// What a completion queue hands back. One object may have several operations out only if it can tell their ends apart.
class Tag {
 public:
  virtual ~Tag() = default;
  // On the queue's thread. `ok` as gRPC defines it for the operation. May free this.
  virtual void Proceed(bool ok) = 0;
};

}  // namespace softmax::server
