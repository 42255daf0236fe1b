#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/softmax_client/client_core.h"
#include "client/softmax_client/softmax_client.h"
#include "client/softmax_client/wire.h"
#include "common/base/mutex.h"

// What unary calls and streams share: from a view to slices, and from a received message to a
// tensor. Internal.
namespace softmax::client {

// Knows when gRPC has dropped its last reference to memory that the caller lent it. gRPC may keep
// one after a call has ended (bytes on their way into a socket), so the end of the call is not
// enough. Thread-safe.
class Loan {
 public:
  // A slice over that memory; the loan ends when its last copy is gone.
  static grpc::Slice Lend(std::span<const std::byte> memory, std::shared_ptr<Loan>* loan);

  bool Ended() const;
  bool WaitFor(std::chrono::milliseconds time);  // true: ended
  void Wait();

 private:
  static void OnDropped(void* shared_loan);

  mutable Mutex mu_;
  ConditionVariable changed_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

// Where those parts of a request and its answer lie that do not travel.
struct Placement {
  RegionPlace input;
  RegionPlace output;
  RegionPlace summary;
  // kAuto: holds what of these is the pool's. Such an answer is handed out with it, or copied to the caller's memory.
  std::shared_ptr<PooledRegion> pooled;
  bool pooled_output = false;

  Travelling travelling() const { return {!input, !output}; }
  std::span<const std::byte> InMessage(std::span<const std::byte> data) const {
    return input ? std::span<const std::byte>() : data;
  }
  // Whether a request that ended so may be sent again. Not where it may still run, and write its answer when that place
  // is another call's. A place of the pool's will not be another's: see Failed.
  bool MayRepeat(const absl::Status& status) const {
    return ((!output || pooled_output) && !summary) || IsRefusal(status);
  }
  // After each attempt that failed.
  void Failed(const absl::Status& status) const {
    if (pooled && status.code() == absl::StatusCode::kNotFound) pooled->Lost();
    if (pooled && !IsRefusal(status)) pooled->Spoil();
  }

 private:
  static bool IsRefusal(const absl::Status& status) { return status.code() == absl::StatusCode::kResourceExhausted; }
};

// Where the caller has put them.
Placement CallersPlacement(const Regions& regions, const TensorView& input, const SoftmaxOptions& options);
// Beside that, if there is a pool and the others are large, they are put into it.
Placement WithPool(ClientCore& core, const Placement& callers, const TensorView& input, const SoftmaxOptions& options);

// A request ready to be sent.
struct OutgoingRequest {
  std::vector<grpc::Slice> slices;
  std::shared_ptr<Loan> loan;  // nullptr: the tensor was small and has been copied, or is not in the message
};

// Checks what the server would refuse without looking at values, so that a slip of the caller gets
// a clear message.
absl::Status CheckRequest(const TensorView& input, const SoftmaxOptions& options, const Regions& regions);

// All of a request but the bytes of its tensor, which follow if they travel.
std::string HeaderOf(const TensorView& input, const SoftmaxOptions& options, const Placement& placement,
                     std::uint64_t id, Framing framing);
// `data`: empty if they do not.
OutgoingRequest WithTensor(std::string header, std::span<const std::byte> data);

// What the answer to a request has to be, and where it is to be put. A copy: the caller's own shape may be gone when
// the answer comes.
struct ExpectedAnswer {
  ExpectedAnswer() = default;
  ExpectedAnswer(const TensorView& input, const SoftmaxOptions& options, const Placement& placement = {});

  DataType dtype = DataType::kFloat32;
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> shape = {};
  bool has_tensor = true;
  bool has_summary = false;
  std::size_t number_size = 4;  // of a summary's numbers
  std::array<std::uint64_t, Summary::kParts> part_bytes = {};
  std::span<std::byte> output;          // empty: memory of the tensor's own
  std::span<std::byte> summary_output;  // the same
  std::optional<PlaceFields> output_place;
  std::optional<PlaceFields> summary_place;
  std::span<std::byte> pooled_output;    // of output_place, when it is the pool's
  std::shared_ptr<PooledRegion> keeper;  // of that

  // Of all parts of a summary that has a place: each begins at a multiple of 8.
  std::uint64_t PlacedSummaryBytes() const;

  // What came instead is a message.
  void FallBack() {
    if (!pooled_output.empty()) output_place.reset();
    pooled_output = {};
    keeper.reset();
  }
};

// OK, or the server's refusal with its advice; INTERNAL when it is no answer to such a request.
absl::Status CheckAnswer(const ResponseFields& fields, const ExpectedAnswer& expected);

// The tensor of an answer that CheckAnswer found good, with its bytes and its summary's copied out of the message, if
// they came in it.
Tensor TakeTensor(Pieces message, const ResponseFields& fields, const ExpectedAnswer& expected);

// The same status with the server's address before the message.
absl::Status WithTarget(const std::string& target, const absl::Status& status);

}  // namespace softmax::client
