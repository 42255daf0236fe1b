#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/client/support/fake_server.h"

// The fake server as a program of its own, so that tests can kill it: `fake_server ADDRESS [DELAY_MS]`. Ends with its
// parent.
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  softmax::client::FakeServer server(argv[1]);
  if (argc > 2) server.behavior().delay_ms = std::atoi(argv[2]);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}
