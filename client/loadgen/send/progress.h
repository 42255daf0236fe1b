#pragma once

#include <cstdint>
#include <string>

#include "client/loadgen/measure/board.h"

namespace softmax::client {

// Rewrites one line on a terminal about once a second; where standard error is none, nothing is written.
class ProgressLine {
 public:
  explicit ProgressLine(std::string run_name);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(const Board& board);

 private:
  const bool on_;
  const std::string run_name_;
  std::int64_t last_ns_ = 0;
  std::uint64_t last_answers_ = 0;
};

// "running 12.0 s  5000 requests/s  UNAVAILABLE 3": what the line says of the state of a board. `per_second` is given.
std::string ProgressText(const Board& board, std::int64_t now_ns, double per_second);

}  // namespace softmax::client
