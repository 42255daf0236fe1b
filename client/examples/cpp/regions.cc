// Tensors in memory that a server of this machine shares, so that they do not travel: `regions TARGET` prints sums of
// rows. The server needs --regions-socket.
#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>

#include "softmax/client/softmax_client.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: regions TARGET\n";
    return 2;
  }
  const auto client = softmax::client::Client::Create({.target = argv[1]});
  const std::vector<std::int64_t> shape = {64, 1024};
  const std::size_t count = 64 * 1024;
  const auto region = client.ok() ? (*client)->AllocateRegion(2 * count * sizeof(float)) : client.status();
  if (!region.ok()) {
    std::cerr << region.status().message() << "\n";
    return 2;
  }
  const auto logits = region->At<float>(0, count);
  const auto probabilities = region->At<float>(count * sizeof(float), count);
  std::iota(logits.begin(), logits.end(), 0.0f);
  const absl::Status status =
      (*client)->SoftmaxInto(softmax::client::ViewOf(logits, shape), std::as_writable_bytes(probabilities));
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    return 1;
  }
  std::cout << std::accumulate(probabilities.begin(), probabilities.begin() + 1024, 0.0) << "\n";
  return 0;
}
