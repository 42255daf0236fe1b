#include "client/loadgen/send/sender_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "client/loadgen/send/process.h"

namespace softmax::client {

bool Children::Start(const LoadOptions& options, const Workload& workload, const Board& board) {
  std::fflush(nullptr);
  for (int p = 0; p < options.processes; ++p) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
      // The parent alone decides about Ctrl-C; no child outlives it.
      signal(SIGINT, SIG_IGN);
      signal(SIGTERM, SIG_IGN);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      RunSendingProcess(options, workload, board, p);
      _exit(0);
    }
    pids_.push_back(pid);
  }
  return true;
}

bool Children::Running() {
  for (pid_t& pid : pids_) {
    int status = 0;
    if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid) continue;
    pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed_ = true;
  }
  return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; });
}

void Children::Kill() {
  for (const pid_t pid : pids_) {
    if (pid != 0) kill(pid, SIGKILL);
  }
  while (Running()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace softmax::client
