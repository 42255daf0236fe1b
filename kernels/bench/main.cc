#include "kernels/bench/bench.h"

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = softmax::kernels::bench::ParseCommandLine(argc, argv, &exit_code);
  if (!options) return exit_code;
  return softmax::kernels::bench::RunBench(*options);
}
