// One blocking call: `sync TARGET 1 2 3` prints the softmax of 1 2 3.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "softmax/client/softmax_client.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: sync TARGET NUMBER...\n";
    return 2;
  }
  const auto client = softmax::client::Client::Create({.target = argv[1]});
  if (!client.ok()) {
    std::cerr << client.status().message() << "\n";
    return 2;
  }
  std::vector<float> values;
  for (int i = 2; i < argc; ++i) values.push_back(std::strtof(argv[i], nullptr));
  const std::vector<std::int64_t> shape = {1, static_cast<std::int64_t>(values.size())};
  const auto answer = (*client)->Softmax(softmax::client::ViewOf(values, shape));
  if (!answer.ok()) {
    std::cerr << answer.status() << "\n";
    return 1;
  }
  for (const float y : answer->values<float>()) std::cout << y << " ";
  std::cout << "\n";
}
