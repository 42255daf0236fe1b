#pragma once

#include <sys/types.h>

#include <vector>

#include "client/loadgen/measure/board.h"
#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/plan/workload.h"

namespace softmax::client {

// The sending processes of one run, each waited for once. What still runs at the end is killed.
class SenderProcesses {
 public:
  SenderProcesses() = default;
  ~SenderProcesses() { Kill(); }
  SenderProcesses(const SenderProcesses&) = delete;
  SenderProcesses& operator=(const SenderProcesses&) = delete;

  // Forks; a child does not return from here. False: some could not be forked. The calling process must never have
  // used gRPC, and must have no other thread.
  bool Start(const LoadOptions& options, const Workload& workload, const Board& board);

  // Looks who has ended. True while any runs.
  bool Running();
  void Kill();

  // Whether one ended badly.
  bool failed() const { return failed_; }
  // Whether one ended because something was not to be had, and said so.
  bool lacking() const { return lacking_; }

 private:
  std::vector<pid_t> pids_;  // 0: has been waited for
  bool failed_ = false;
  bool lacking_ = false;
};

}  // namespace softmax::client
