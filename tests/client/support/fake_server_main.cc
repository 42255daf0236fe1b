#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>

#include "tests/client/support/fake_server.h"
#include "tests/support/eventually.h"

// The fake server as a program of its own, so that tests can kill it: `fake_server ADDRESS [DELAY_MS]`. Says what has
// come so far, a line each time. Ends with its parent.
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  softmax::client::FakeServer server(argv[1]);
  if (argc > 2) server.behavior().delay_ms = std::atoi(argv[2]);
  for (int said = 0;;) {
    softmax::testing::Eventually([&] { return server.requests() > said; }, std::chrono::hours(24));
    said = server.requests();
    std::printf("%d requests, %d connections\n", said, server.connections());
    std::fflush(stdout);
  }
}
