#pragma once

namespace softmax::kernels::bench {

// Keeps the calling thread on one core: the index-th (modulo their number) of those that the process may use. Threads
// that are left to the system may share a core for milliseconds after they have been woken. Does nothing where that is
// refused.
void PinToCore(int index);

}  // namespace softmax::kernels::bench
