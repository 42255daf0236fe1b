// An open loop of verified calls as a program: softmax-open-loop TARGET RATE DEADLINE_MS SEED ATTEMPTS [MUST_END_MS].
// Prints a line of JSON each second, and a last one, with "done", when its standard input has ended and every call has,
// too.
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/end_to_end/open_loop.h"

namespace {

using softmax::testing::OpenLoop;
using softmax::testing::OpenLoopCounts;

void Print(OpenLoop& loop, bool done) {
  const OpenLoopCounts counts = loop.Look();
  const softmax::client::ClientStats stats = loop.Stats();
  const nlohmann::json line = {{"done", done},
                               {"started", counts.started},
                               {"ended", counts.ended},
                               {"ok", counts.ok},
                               {"wrong", counts.wrong},
                               {"unclear", counts.unclear},
                               {"overdue", counts.overdue},
                               {"held_back", counts.held_back},
                               {"failed", counts.failed},
                               {"retries", stats.retries},
                               {"longest_ms", counts.longest / std::chrono::milliseconds(1)},
                               {"first_bad", counts.first_bad}};
  std::cout << line.dump() << std::endl;
}

bool InputEnded() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return poll(&input, 1, 1000) > 0 && read(STDIN_FILENO, &byte, 1) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6 || argc > 7) {
    std::cerr << "usage: softmax-open-loop TARGET RATE DEADLINE_MS SEED ATTEMPTS [MUST_END_MS]\n";
    return 2;
  }
  softmax::testing::OpenLoopOptions options;
  options.client.target = argv[1];
  options.rate = std::atof(argv[2]);
  options.client.deadline = std::chrono::milliseconds(std::atoi(argv[3]));
  options.seed = static_cast<std::uint64_t>(std::atoll(argv[4]));
  options.client.retry.max_attempts = std::atoi(argv[5]);
  if (argc == 7) options.must_end_within = std::chrono::milliseconds(std::atoi(argv[6]));
  // A partition is noticed by the silence, and a chaos test has not a minute for it.
  options.client.keepalive_time = std::chrono::milliseconds(5000);
  options.client.keepalive_timeout = std::chrono::milliseconds(5000);
  OpenLoop loop(options);
  while (!InputEnded()) Print(loop, false);
  loop.Stop();
  Print(loop, true);
  return 0;
}
