#pragma once

#include <unordered_set>

#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/client_core.h"
#include "client/softmax_client/softmax_client.h"
#include "common/base/mutex.h"

namespace softmax::client {

class AsyncCall;

// The asynchronous calls that have not called back yet, so that the client's end can cancel and
// await them.
class AsyncCalls {
 public:
  AsyncCalls(ClientCore& core, CallbackQueue& queue) : core_(core), queue_(queue) {}
  ~AsyncCalls();  // Cancels all and waits until the last callback has returned.

  // The request has been checked.
  void Start(const TensorView& input, const SoftmaxOptions& options, Callback done);

 private:
  friend class AsyncCall;
  void Remove(AsyncCall* call);

  ClientCore& core_;
  CallbackQueue& queue_;

  Mutex mu_;
  ConditionVariable empty_;
  std::unordered_set<AsyncCall*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::client
