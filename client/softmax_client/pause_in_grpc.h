#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <stop_token>

namespace softmax::client {

// Waits on this thread. False: it was stopped before the time was over.
//
// The wait is on a completion queue, because gRPC has no threads of its own that look at sockets: what is connecting
// meanwhile would otherwise not get on.
inline bool PauseInGrpc(std::chrono::nanoseconds time, const std::stop_token& stop) {
  grpc::CompletionQueue queue;
  grpc::Alarm alarm;
  alarm.Set(&queue, std::chrono::system_clock::now() + time, nullptr);
  bool over = false;
  void* tag = nullptr;
  {
    const std::stop_callback cut_short(stop, [&alarm] { alarm.Cancel(); });
    queue.Next(&tag, &over);
  }
  queue.Shutdown();
  for (bool ok = false; queue.Next(&tag, &ok);) {
  }
  return over && !stop.stop_requested();
}

}  // namespace softmax::client
