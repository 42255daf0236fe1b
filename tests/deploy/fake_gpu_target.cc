// A /metrics like that of a server on GPUs, for Prometheus to scrape: the server's own metrics code over the fake of
// libnvidia-ml.so.1, which LD_LIBRARY_PATH puts in the driver's place. Prints its port and serves until its stdin ends.
#include <cstdio>

#include "server/metrics/metrics.h"

int main() {
  softmax::server::Metrics::Options options;
  options.version = "0.0.0";
  options.commit = "fake";
  options.backend = "cuda";
  const auto metrics = softmax::server::Metrics::Create(std::move(options));
  if (const std::string error = metrics->Serve("127.0.0.1:0"); !error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  std::printf("%d\n", metrics->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
