#pragma once

namespace softmax::testing {

// gRPC hands out a completion queue's events in no order that it promises: the thread that matches a call may be held
// up between the match and the event, and what the server's shutdown refuses comes out first. From HoldBackEvent on,
// the first event of a success that any queue of this process hands out is kept back for `milliseconds`, as if that had
// happened. Needs gRPC as a shared library.
void HoldBackEvent(int milliseconds);
// Whether one was found since, and is or was kept back.
bool EventIsHeldBack();
// Whether one was kept back since, and handed out.
bool EventCameLate();

}  // namespace softmax::testing
