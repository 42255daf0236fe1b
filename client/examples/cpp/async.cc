// Many calls at once, with futures and with a callback: `async TARGET` prints how many of 100 answers came.
#include <cstdint>
#include <future>
#include <iostream>
#include <vector>

#include "softmax/client/softmax_client.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: async TARGET\n";
    return 2;
  }
  // Two tries and a second each: what a busy service can afford.
  const auto client = softmax::client::Client::Create(
      {.target = argv[1], .deadline = std::chrono::seconds(1), .retry = {.max_attempts = 2}});
  if (!client.ok()) {
    std::cerr << client.status().message() << "\n";
    return 2;
  }
  const std::vector<float> values(1000, 1);  // stays as it is until the answers are there
  const std::vector<std::int64_t> shape = {1, 1000};
  const auto view = softmax::client::ViewOf(values, shape);

  std::vector<std::future<absl::StatusOr<softmax::client::Tensor>>> answers;
  for (int i = 0; i < 99; ++i) answers.push_back((*client)->SoftmaxFuture(view));
  std::promise<bool> last;
  (*client)->SoftmaxAsync(view, {.operation = softmax::client::Operation::kLogSoftmax},
                          [&](absl::StatusOr<softmax::client::Tensor> answer) { last.set_value(answer.ok()); });
  int came = last.get_future().get() ? 1 : 0;
  for (auto& future : answers) {
    const auto answer = future.get();
    if (answer.ok()) {
      ++came;
    } else {
      std::cerr << answer.status() << "\n";
    }
  }
  std::cout << came << " answers, " << (*client)->Stats().retries << " retries\n";
  return came == 100 ? 0 : 1;
}
