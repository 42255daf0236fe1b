#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/connection_pool.h"
#include "client/softmax_client/request.h"

namespace softmax::client {

class AsyncCall;

// The asynchronous calls that have not called back yet, so that the client's end can cancel and
// await them.
class AsyncCalls {
 public:
  AsyncCalls(std::string target, ConnectionPool& pool, CallbackQueue& queue)
      : target_(std::move(target)), pool_(pool), queue_(queue) {}
  ~AsyncCalls();  // Cancels all and waits until the last callback has returned.

  // The request has been checked.
  void Start(const TensorView& input, const SoftmaxOptions& options, std::chrono::nanoseconds timeout, Callback done);

 private:
  friend class AsyncCall;
  void Remove(AsyncCall* call);

  const std::string target_;
  ConnectionPool& pool_;
  CallbackQueue& queue_;

  std::mutex mu_;
  std::condition_variable empty_;
  std::unordered_set<AsyncCall*> calls_;  // guarded by mu_
};

}  // namespace softmax::client
