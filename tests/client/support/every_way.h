#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/sample.h"

namespace softmax::client {

enum class Way { kSync, kInto, kAsync, kBatch, kStream };
inline constexpr Way kUnaryWays[] = {Way::kSync, Way::kInto, Way::kAsync, Way::kBatch};
inline constexpr const char* kWayNames[] = {"Sync", "Into", "Async", "Batch", "Stream"};

// The answer to the sample by this way of calling; a stream's own end has to be good.
inline absl::StatusOr<Tensor> CallBy(Way way, Client& client, const Sample& sample,
                                     const SoftmaxOptions& options = {}) {
  if (way == Way::kSync) return client.Softmax(sample.view(), options);
  if (way == Way::kAsync) return client.SoftmaxFuture(sample.view(), options).get();
  if (way == Way::kInto) {
    Tensor output(sample.dtype, sample.shape, sample.data.size());
    const absl::Status status = client.SoftmaxInto(sample.view(), output.mutable_data(), options);
    if (!status.ok()) return status;
    return output;
  }
  if (way == Way::kBatch) {
    const BatchItem item{sample.view(), options};
    return std::move(client.SoftmaxBatch({&item, 1}, {options.timeout, options.cancel})[0]);
  }
  absl::StatusOr<Tensor> result = absl::UnknownError("no answer");
  const auto stream =
      *client.OpenStream({}, [&](std::uint64_t, absl::StatusOr<Tensor> answer) { result = std::move(answer); });
  EXPECT_TRUE(stream->Send(1, sample.view(), options).ok());
  EXPECT_TRUE(stream->Finish().ok());
  return result;
}

// The statuses of all unary ways.
inline std::vector<absl::Status> CallInEveryWay(Client& client, const Sample& sample) {
  std::vector<absl::Status> statuses;
  for (const Way way : kUnaryWays) statuses.push_back(CallBy(way, client, sample).status());
  return statuses;
}

}  // namespace softmax::client
