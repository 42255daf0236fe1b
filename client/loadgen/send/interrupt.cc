#include "client/loadgen/send/interrupt.h"

#include <signal.h>

namespace softmax::client {
namespace {

volatile sig_atomic_t g_interrupted = 0;

void OnInterrupt(int /*signal*/) { g_interrupted = 1; }

}  // namespace

void CatchInterrupts() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, OnInterrupt);
  signal(SIGTERM, OnInterrupt);
}

bool Interrupted() { return g_interrupted != 0; }

}  // namespace softmax::client
