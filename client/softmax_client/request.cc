#include "client/softmax_client/request.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>

#include "client/softmax_client/options_check.h"
#include "client/softmax_client/retry.h"

namespace softmax::client {
namespace {

// Below this a copy costs less than a slice of its own.
constexpr std::size_t kCopyBelowBytes = 16 << 10;
// gRPC and protobuf count a message's bytes in an int; the header is far below the difference.
constexpr std::uint64_t kMaxPayloadBytes = INT_MAX - (1 << 20);

// Of an answer's place behind its input: kernels read and write whole lines best.
constexpr std::uint64_t kPlaceAlignment = 256;

std::uint32_t MicrosecondsOf(std::chrono::nanoseconds timeout) {
  const std::int64_t us = std::max<std::int64_t>(1, timeout.count() / 1000);
  return static_cast<std::uint32_t>(std::min<std::int64_t>(us, UINT32_MAX));
}

// "float32 [2, 3]".
std::string Described(std::uint64_t dtype, std::size_t rank, const std::array<std::int64_t, kMaxRank>& shape) {
  const bool known = dtype >= static_cast<std::uint64_t>(DataType::kFloat32) &&
                     dtype <= static_cast<std::uint64_t>(DataType::kFloat64);
  const std::string name = known ? std::string(NameOf(static_cast<DataType>(dtype))) : absl::StrCat("type ", dtype);
  return absl::StrCat(name, " [", absl::StrJoin(shape.begin(), shape.begin() + rank, ", "), "]");
}

std::optional<PlaceFields> FieldsOf(const RegionPlace& place) {
  if (!place) return std::nullopt;
  return PlaceFields{place.region->token(), place.offset};
}

absl::Status WrongSize(absl::string_view field, std::uint64_t has, std::uint64_t needed) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", has, " bytes, but the answer has ", needed));
}

// Where the caller wants the answer.
absl::Status CheckOutputs(const TensorView& input, const SoftmaxOptions& options) {
  const SummaryOptions& summary = options.summary;
  if (options.output.empty() && summary.output.empty()) return absl::OkStatus();
  const ExpectedAnswer expected(input, options);
  if (!options.output.empty()) {
    if (!expected.has_tensor) {
      return absl::InvalidArgumentError("output: has bytes, but summary without full asks for no tensor");
    }
    const std::uint64_t bytes = AnswerBytes(input, expected.dtype);
    if (options.output.size() != bytes) return WrongSize("output", options.output.size(), bytes);
  }
  if (summary.output.empty()) return absl::OkStatus();
  if (reinterpret_cast<std::uintptr_t>(summary.output.data()) % 8 != 0) {
    return absl::InvalidArgumentError("summary.output: its address must be a multiple of 8");
  }
  const std::uint64_t bytes = expected.PlacedSummaryBytes();
  return summary.output.size() == bytes ? absl::OkStatus() : WrongSize("summary.output", summary.output.size(), bytes);
}

absl::Status CheckSummary(std::span<const std::int64_t> shape, std::int32_t axis, const SummaryOptions& summary) {
  const std::uint64_t rows = RowsOf(shape, axis);
  const std::size_t count = summary.indices.size();
  if (rows == 0 ? count != 0 : count % rows != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("summary.indices: has ", count, ", must be a multiple of ", rows, ", as many for each row"));
  }
  const std::int64_t cols = shape[static_cast<std::size_t>(axis)];
  for (std::size_t i = 0; i < count; ++i) {
    if (summary.indices[i] >= -1 && summary.indices[i] < cols) continue;
    return absl::InvalidArgumentError(absl::StrCat("summary.indices: value ", i, ", of row ", i / (count / rows),
                                                   ", is ", summary.indices[i], ", must be -1 (none) or from 0 to ",
                                                   cols - 1));
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Slice Loan::Lend(std::span<const std::byte> memory, std::shared_ptr<Loan>* loan) {
  *loan = std::make_shared<Loan>();
  // gRPC only reads the bytes of a request.
  void* bytes = const_cast<std::byte*>(memory.data());
  return grpc::Slice(bytes, memory.size(), &Loan::OnDropped, new std::shared_ptr<Loan>(*loan));
}

void Loan::OnDropped(void* shared_loan) {
  const std::unique_ptr<std::shared_ptr<Loan>> loan(static_cast<std::shared_ptr<Loan>*>(shared_loan));
  MutexLock lock((*loan)->mu_);
  (*loan)->ended_ = true;
  (*loan)->changed_.notify_all();
}

bool Loan::Ended() const {
  MutexLock lock(mu_);
  return ended_;
}

bool Loan::WaitFor(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  MutexLock lock(mu_);
  while (!ended_ && std::chrono::steady_clock::now() < until) changed_.wait_until(mu_, until);
  return ended_;
}

void Loan::Wait() {
  MutexLock lock(mu_);
  while (!ended_) changed_.wait(mu_);
}

absl::Status CheckRequest(const TensorView& input, const SoftmaxOptions& options, const Regions& regions) {
  absl::Status in_time = CheckTimeout(options.timeout);
  if (!in_time.ok()) return in_time;
  const std::size_t rank = input.shape.size();
  if (rank < 1 || rank > kMaxRank) {
    return absl::InvalidArgumentError("shape: rank " + std::to_string(rank) + ", must be 1 to " +
                                      std::to_string(kMaxRank));
  }
  const auto elements = ElementsOf(input.shape);
  if (!elements) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: [", absl::StrJoin(input.shape, ", "), "] has a negative dimension, or too many elements"));
  }
  const std::uint64_t expected = *elements * SizeOf(input.dtype);
  if (input.data.size() != expected) {
    return absl::InvalidArgumentError("data: " + std::to_string(input.data.size()) + " bytes, but the shape and " +
                                      std::string(NameOf(input.dtype)) + " need " + std::to_string(expected));
  }
  if (expected + options.lengths.size_bytes() + options.summary.indices.size_bytes() > kMaxPayloadBytes &&
      !regions.Find(input.data, SizeOf(input.dtype))) {
    return absl::InvalidArgumentError("data: " + std::to_string(expected) + " bytes, more than one message can hold (" +
                                      std::to_string(kMaxPayloadBytes) + ")");
  }
  const auto signed_rank = static_cast<std::int32_t>(rank);
  const std::int32_t axis = options.axis.value_or(-1);
  if (axis < -signed_rank || axis >= signed_rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis: ", axis, ", must be ", -signed_rank, " to ", signed_rank - 1, " for rank ", rank));
  }
  if (options.scale && !(std::isfinite(*options.scale) && *options.scale > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("scale: ", *options.scale, ", must be finite and above 0"));
  }
  absl::Status status = CheckSummary(input.shape, axis < 0 ? axis + signed_rank : axis, options.summary);
  return status.ok() ? CheckOutputs(input, options) : status;
}

std::size_t SummaryBytes(const TensorView& input, const SoftmaxOptions& options) {
  return ExpectedAnswer(input, options).PlacedSummaryBytes();
}

Placement CallersPlacement(const Regions& regions, const TensorView& input, const SoftmaxOptions& options) {
  Placement placement;
  placement.input = regions.Find(input.data, SizeOf(input.dtype));
  placement.output = regions.Find(options.output, SizeOf(options.output_dtype.value_or(input.dtype)));
  placement.summary = regions.Find(options.summary.output, 8);
  return placement;
}

Placement WithPool(ClientCore& core, const Placement& callers, const TensorView& input, const SoftmaxOptions& options) {
  Placement placement = callers;
  if (!core.region_pool) return placement;
  const bool has_tensor = options.summary.full || !options.summary.any();
  const std::uint64_t in = placement.input ? 0 : input.data.size();
  const std::uint64_t out =
      placement.output || !has_tensor ? 0 : AnswerBytes(input, options.output_dtype.value_or(input.dtype));
  if (std::max(in, out) < core.options.regions_from_bytes) return placement;
  const std::uint64_t out_at = (in + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  placement.pooled = core.region_pool->Take(out_at + out);
  if (!placement.pooled) return placement;
  const std::shared_ptr<RegionMemory>& memory = placement.pooled->memory();
  if (in != 0) {
    std::memcpy(memory->data(), input.data.data(), in);
    placement.input = {memory, 0};
  }
  placement.pooled_output = out != 0;
  if (out != 0) placement.output = {memory, out_at};
  return placement;
}

std::string HeaderOf(const TensorView& input, const SoftmaxOptions& options, const Placement& placement,
                     std::uint64_t id, Framing framing) {
  RequestFields fields;
  fields.id = id;
  fields.operation = options.operation;
  fields.axis = options.axis;
  fields.scale = options.scale;
  fields.output_dtype = options.output_dtype;
  fields.lengths = options.lengths;
  fields.summary = options.summary;
  // A unary call's deadline travels beside the message.
  if (framing == Framing::kStreamElement && options.timeout) {
    fields.timeout_us = MicrosecondsOf(*options.timeout);
  }
  fields.dtype = input.dtype;
  fields.shape = input.shape;
  fields.place = FieldsOf(placement.input);
  fields.output_place = FieldsOf(placement.output);
  fields.summary_place = FieldsOf(placement.summary);
  fields.data_bytes = placement.input ? 0 : input.data.size();

  std::string header;
  AppendRequestHeader(fields, framing, &header);
  return header;
}

OutgoingRequest WithTensor(std::string header, std::span<const std::byte> data) {
  OutgoingRequest request;
  if (data.size() < kCopyBelowBytes) {
    header.append(reinterpret_cast<const char*>(data.data()), data.size());
    request.slices.emplace_back(header);
    return request;
  }
  request.slices.emplace_back(header);
  request.slices.push_back(Loan::Lend(data, &request.loan));
  return request;
}

ExpectedAnswer::ExpectedAnswer(const TensorView& input, const SoftmaxOptions& options, const Placement& placement)
    : dtype(options.output_dtype.value_or(input.dtype)),
      rank(input.shape.size()),
      output(options.output),
      summary_output(options.summary.output),
      output_place(FieldsOf(placement.output)),
      summary_place(FieldsOf(placement.summary)) {
  std::copy(input.shape.begin(), input.shape.end(), shape.begin());
  if (placement.pooled_output) {
    pooled_output = {placement.output.region->data() + placement.output.offset, AnswerBytes(input, dtype)};
    keeper = placement.pooled;
  }
  const SummaryOptions& summary = options.summary;
  has_summary = summary.any();
  has_tensor = summary.full || !has_summary;
  number_size = input.dtype == DataType::kFloat64 ? 8 : 4;
  if (!has_summary || input.data.empty()) return;
  const std::uint64_t rows = RowsOf(input.shape, options.axis.value_or(-1));
  part_bytes[Summary::kTopValues] = rows * summary.top_k * SizeOf(dtype);
  part_bytes[Summary::kTopIndices] = rows * summary.top_k * sizeof(std::int32_t);
  part_bytes[Summary::kValuesAt] = summary.indices.size() * SizeOf(dtype);
  part_bytes[Summary::kLogSumExp] = part_bytes[Summary::kMaximum] = summary.log_sum_exp ? rows * number_size : 0;
  part_bytes[Summary::kEntropy] = summary.entropy ? rows * number_size : 0;
}

std::uint64_t ExpectedAnswer::PlacedSummaryBytes() const {
  std::uint64_t bytes = 0;
  for (const std::uint64_t part : part_bytes) bytes += (part + 7) / 8 * 8;
  return bytes;
}

absl::Status CheckAnswer(const ResponseFields& fields, const ExpectedAnswer& expected) {
  if (fields.code != 0) {
    absl::Status status(static_cast<absl::StatusCode>(fields.code), fields.message);
    if (fields.retry_after_ms != 0) SetRetryAdvice(fields.retry_after_ms, &status);
    return status;
  }
  if (expected.has_summary && !fields.has_summary) {
    return absl::InternalError(
        "the server's answer has no summary; max_top_k of its limits tells whether it knows any");
  }
  if (expected.has_summary && fields.summary_place != expected.summary_place) {
    return absl::InternalError("the server's answer has its summary in another place than was asked for");
  }
  if (expected.has_summary &&
      fields.part_bytes != (expected.summary_place ? decltype(fields.part_bytes)() : expected.part_bytes)) {
    return absl::InternalError("the server's answer has a summary of other parts or sizes than was asked for");
  }
  if (!expected.has_tensor) return absl::OkStatus();
  if (!fields.has_output) return absl::InternalError("the server's answer has no output");
  const auto wanted = static_cast<std::uint64_t>(expected.dtype);
  if (fields.dtype != wanted || fields.rank != expected.rank || fields.shape != expected.shape) {
    return absl::InternalError("the server's answer is " + Described(fields.dtype, fields.rank, fields.shape) +
                               ", and " + Described(wanted, expected.rank, expected.shape) + " was asked for");
  }
  if (fields.place != expected.output_place) {
    return absl::InternalError("the server's answer is in another place than was asked for");
  }
  const auto elements = ElementsOf({fields.shape.data(), fields.rank});
  const std::uint64_t needed = expected.output_place ? 0 : elements.value_or(0) * SizeOf(expected.dtype);
  if (!elements || needed != fields.payload_bytes) {
    return absl::InternalError("the server's answer has " + std::to_string(fields.payload_bytes) +
                               " bytes, which is not what its shape needs");
  }
  return absl::OkStatus();
}

namespace {

// Where the elements of an answer are, or are to be put.
Tensor TensorFor(const ResponseFields& fields, const ExpectedAnswer& expected) {
  std::vector<std::int64_t> shape(expected.shape.begin(), expected.shape.begin() + expected.rank);
  if (!expected.output.empty()) return Tensor(expected.dtype, std::move(shape), expected.output, nullptr);
  if (!expected.pooled_output.empty()) {
    return Tensor(expected.dtype, std::move(shape), expected.pooled_output, expected.keeper);
  }
  return Tensor(expected.dtype, std::move(shape), expected.has_tensor ? fields.payload_bytes : 0);
}

}  // namespace

Tensor TakeTensor(Pieces message, const ResponseFields& fields, const ExpectedAnswer& expected) {
  Tensor tensor = TensorFor(fields, expected);
  if (!expected.output.empty() && !expected.pooled_output.empty()) {
    std::memcpy(expected.output.data(), expected.pooled_output.data(), expected.output.size());
  }
  if (expected.has_tensor && !expected.output_place) {
    CopyFromSlices(message, fields.payload_offset, fields.payload_bytes, tensor.mutable_data().data());
  }
  tensor.set_timing(fields.timing);
  if (!expected.has_summary) return tensor;
  Summary summary(expected.dtype, expected.number_size, expected.part_bytes, expected.summary_output);
  for (std::size_t i = 0; i < Summary::kParts; ++i) {
    CopyFromSlices(message, fields.part_offset[i], fields.part_bytes[i],
                   summary.mutable_part(static_cast<Summary::Part>(i)));
  }
  tensor.set_summary(std::move(summary));
  return tensor;
}

absl::Status WithTarget(const std::string& target, const absl::Status& status) {
  if (status.ok()) return status;
  return Reworded(status, target + ": " + std::string(status.message()));
}

}  // namespace softmax::client
