// Only the public headers, from the install tree.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "softmax/client/softmax_client.h"

int main(int argc, char** argv) {
  auto client = softmax::client::Client::Create({.target = argc > 1 ? argv[1] : "localhost:50051"});
  if (!client.ok()) return 2;
  const auto info = (*client)->GetServerInfo();
  const std::vector<double> values = {1, 2, 3};
  const std::vector<std::int64_t> shape = {3};
  const auto answer = (*client)->Softmax(softmax::client::ViewOf(values, shape));
  if (!info.ok() || !answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
    return 1;
  }
  std::printf("%s %.6f %.6f %.6f\n", info->version.c_str(), answer->values<double>()[0], answer->values<double>()[1],
              answer->values<double>()[2]);
}
