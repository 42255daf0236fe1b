#include "client/softmax_client/known_server.h"

#include <algorithm>

namespace softmax::client {
namespace {

// Half of gRPC's own limit: no server refuses less for its size.
constexpr std::uint64_t kAskBeforeBytes = 2 << 20;
constexpr std::chrono::seconds kFresh(10);

absl::Status TooLarge(const std::string& what, std::uint64_t bytes, const std::string& limit, std::uint64_t most) {
  return absl::InvalidArgumentError(what + ": " + std::to_string(bytes) + " bytes, above the server's " + limit +
                                    " of " + std::to_string(most));
}

template <typename T>
bool Lacks(const std::vector<T>& has, T wanted) {
  return !has.empty() && std::find(has.begin(), has.end(), wanted) == has.end();
}

}  // namespace

std::uint64_t AnswerBytes(const TensorView& input, DataType output_dtype) {
  return input.data.size() / SizeOf(input.dtype) * SizeOf(output_dtype);
}

void KnownServer::Learn(const std::string& address, const ServerInfo& info, Clock::time_point now) {
  MutexLock lock(mu_);
  address_ = address;
  info_ = info;
  learnt_ = now;
}

void KnownServer::CannotTell() {
  MutexLock lock(mu_);
  cannot_tell_ = true;
}

std::optional<absl::Status> KnownServer::CheckLimits(const TensorView& input, const SoftmaxOptions& options,
                                                     Clock::time_point now, const Travelling& travelling) const {
  const std::uint64_t answer = AnswerBytes(input, options.output_dtype.value_or(input.dtype));
  const std::uint64_t bytes =
      std::max<std::uint64_t>(travelling.input ? input.data.size() : 0, travelling.output ? answer : 0);
  MutexLock lock(mu_);
  if (!info_) return bytes < kAskBeforeBytes || cannot_tell_ ? std::make_optional(absl::OkStatus()) : std::nullopt;
  const absl::Status status = Check(input, options, travelling);
  if (status.ok() || now - learnt_ < kFresh) return status;
  return std::nullopt;
}

absl::Status KnownServer::Check(const TensorView& input, const SoftmaxOptions& options,
                                const Travelling& travelling) const {
  const DataType output_dtype = options.output_dtype.value_or(input.dtype);
  const ServerLimits& limits = info_->limits;
  const std::string server = address_ + ": ";
  for (const auto& [field, dtype] : {std::pair("input.dtype", input.dtype), std::pair("output_dtype", output_dtype)}) {
    if (!Lacks(info_->dtypes, dtype)) continue;
    return absl::InvalidArgumentError(server + field + ": the server does not have " + std::string(NameOf(dtype)));
  }
  if (Lacks(info_->operations, options.operation)) {
    return absl::InvalidArgumentError(server + "operation: the server does not have " +
                                      std::string(NameOf(options.operation)));
  }
  // The codes are those that the server itself would answer with.
  const std::uint64_t most_in_region = info_->regions ? info_->regions->max_tensor_bytes : 0;
  if (!travelling.input) {
    if (most_in_region != 0 && input.data.size() > most_in_region) {
      return TooLarge(server + "data", input.data.size(), "regions.max_tensor_bytes", most_in_region);
    }
  } else if (limits.max_request_bytes != 0 && input.data.size() > limits.max_request_bytes) {
    return TooLarge(server + "data", input.data.size(), "max_request_bytes", limits.max_request_bytes);
  }
  if (options.summary.top_k > limits.max_top_k) {
    return absl::InvalidArgumentError(server + "summary.top_k: is " + std::to_string(options.summary.top_k) +
                                      "; must be at most " + std::to_string(limits.max_top_k) + " (max_top_k)");
  }
  if (options.summary.any() && !options.summary.full) return absl::OkStatus();
  const std::uint64_t answer = AnswerBytes(input, output_dtype);
  if (!travelling.output) {
    if (most_in_region == 0 || answer <= most_in_region) return absl::OkStatus();
    return TooLarge(server + "output_dtype: the answer", answer, "regions.max_tensor_bytes", most_in_region);
  }
  if (limits.max_response_bytes != 0 && answer > limits.max_response_bytes) {
    return TooLarge(server + "output_dtype: the answer", answer, "max_response_bytes", limits.max_response_bytes);
  }
  return absl::OkStatus();
}

}  // namespace softmax::client
