// Many rows over one stream, and the same as a batch: `stream TARGET` prints how many answers came either way.
#include <atomic>
#include <cstdint>
#include <iostream>
#include <vector>

#include "softmax/client/softmax_client.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: stream TARGET\n";
    return 2;
  }
  const auto client = softmax::client::Client::Create({.target = argv[1]});
  if (!client.ok()) {
    std::cerr << client.status().message() << "\n";
    return 2;
  }
  const std::vector<float> row = {1, 2, 3, 4};
  const std::vector<std::int64_t> shape = {1, 4};
  const auto view = softmax::client::ViewOf(row, shape);

  std::atomic<int> streamed = 0;  // answers come on the client's thread, in any order
  auto stream = (*client)->OpenStream({}, [&](std::uint64_t /*id*/, absl::StatusOr<softmax::client::Tensor> answer) {
    if (answer.ok()) ++streamed;
  });
  for (std::uint64_t id = 0; stream.ok() && id < 100; ++id) {
    if (!(*stream)->Send(id, view).ok()) break;
  }
  const absl::Status finished = stream.ok() ? (*stream)->Finish() : stream.status();
  if (!finished.ok()) std::cerr << finished << "\n";

  // The same without callbacks, in order, with retries.
  const std::vector<softmax::client::BatchItem> items(100, {view, {}});
  int batched = 0;
  for (const auto& answer : (*client)->SoftmaxBatch(items)) batched += answer.ok() ? 1 : 0;
  std::cout << streamed << " streamed, " << batched << " batched\n";
  return streamed == 100 && batched == 100 ? 0 : 1;
}
