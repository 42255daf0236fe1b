#pragma once

#include <cstddef>
#include <functional>

#include "common/base/clock.h"

namespace softmax::server {

// How gRPC's poller "poll" waits for sockets, made fit for thousands. It hands every socket of a queue to poll(2) at
// each wait, and the kernel looks at each, idle or not. Here a thread with many sockets keeps them in an epoll set of
// its own from one wait to the next, and tells the kernel what has changed.

// Call before the first gRPC call.
void KeepSocketsBetweenWaits();
// On the thread that will wait for this socket, when it is given to gRPC: an older one had the same number, and the set
// may have that one still.
void ForgetKeptSocket(int fd);
// How many sockets this thread's last wait was for, when it was for many: gRPC's own part of a wait still grows with
// them. 0: few.
std::size_t KeptSocketsOfThread();
// This thread's waits last until `at` at most, where gRPC's know milliseconds only: `wake` is called then, once, inside
// the wait, and has to put an event into the queue that is waited for. kNoDeadline: no more. False: the thread's waits
// do not come here, since its poller is another.
bool WakeWaitsAt(TimePoint at, std::function<void()> wake);

}  // namespace softmax::server
