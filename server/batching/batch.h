#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "kernels/types.h"
#include "server/batching/arena.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// How much one batch may hold. A single request above it gets a batch of its own.
struct BatchLimits {
  std::uint64_t bytes = 1u << 20;  // input side; the output side may be as many times larger as its type is wider
  std::uint32_t requests = 256;
};

// Requests of one (input type, output type) whose tensors lie in one span or in regions, and the table of segments a
// kernel runs over. Regions of one device's memory have batches of their own.
//
// A batch is open (requests are added), then closed (laid out and launched), then finished; it is never reopened.
// Inputs lie one after another, each at a multiple of 16 bytes; requests of one width, operation and scale that meet
// without a gap form one row-major matrix, so that the kernel sees few segments. Where both types have one size the
// kernel works in place; otherwise the outputs follow the inputs. A request that asks for a summary has room for that,
// and for its indices, behind its input, and room for a whole output only if it asks for that, too. What a request has
// in regions takes no room: its segments point there. Used by one thread at a time.
class Batch {
 public:
  static constexpr std::uint64_t kAlignment = 16;

  // What a request needs in a batch's span: its input, lengths, indices and summary, and its output where that lies
  // apart, without what is in regions.
  struct Need {
    std::uint64_t input = 0;
    std::uint64_t output = 0;
    std::uint64_t total() const { return input + output; }
  };
  static Need NeedOf(const TensorSpec& spec);
  // What it would need beside that if nothing were in regions, so that batches of both kinds are bounded alike.
  static std::uint64_t InRegionsOf(const TensorSpec& spec);
  // What an open batch of these types reserves.
  static Need CapacityOf(kernels::DataType input, kernels::DataType output, const BatchLimits& limits);

  // `span` holds at least capacity.total() bytes; it may be none where that is 0. The lists of an earlier use keep
  // their memory.
  void Open(kernels::DataType input, kernels::DataType output, SpanRef span, Need capacity, TimePoint now);

  bool Fits(const TensorSpec& spec, const BatchLimits& limits) const;
  // Copies the request's bytes in (the one host copy), as far as they are in no region, and takes it. Fits() must hold,
  // and its regions' device be the others'. With `gather`, bytes that a
  // device can read where they were received are not copied: the lane gathers them.
  void Add(PendingRequest* request, TimePoint now, bool gather = false);

  // Every request's, for a batch that another thread has filled.
  void BeginWork(TimePoint now) {
    for (PendingRequest* request : requests_) request->BeginWork(now);
  }

  // Lays out the outputs and gives the unused slabs back. Only with requests in it.
  void Close(CloseReason reason);

  // Hands every request its answer, or `status`, and forgets them. `now` is when the completion was seen.
  void Complete(const absl::Status& status, TimePoint now);

  bool empty() const { return requests_.empty(); }
  // Whether nobody is there any more for whom it would run.
  bool CallersLeft() const {
    return std::all_of(requests_.begin(), requests_.end(), [](const auto* request) { return request->CallerLeft(); });
  }
  std::size_t requests() const { return requests_.size(); }
  std::uint64_t rows() const { return rows_; }
  TimePoint opened() const { return opened_; }
  TimePoint launched() const { return launched_; }
  kernels::DataType input_type() const { return input_type_; }
  kernels::DataType output_type() const { return output_type_; }
  // Of whole outputs. In place they overwrite their inputs, so summaries() are run first.
  const std::vector<kernels::Segment>& segments() const { return segments_; }
  const std::vector<kernels::SummarySegment>& summaries() const { return summaries_; }
  // Of the span, what it uses.
  std::uint64_t span_bytes() const { return input_used_ + output_used_; }
  // What it works on, in the span and in regions.
  std::uint64_t bytes() const { return span_bytes() + in_regions_; }
  // The only device that has the memory of its requests' regions; Region::kHost: all devices have it.
  int device() const { return device_; }
  // Charge::work of its requests, without what each call takes.
  std::uint64_t work() const { return work_; }

  // What the lane has to bring together before the kernel runs, offsets as in the span; no two overlap. Empty: all
  // inputs are in the span.
  const std::vector<kernels::GatherPiece>& pieces() const { return pieces_; }
  // Indices of the segments whose input is in pieces(), and not at its place in the span.
  const std::vector<std::uint32_t>& gathered_segments() const { return gathered_segments_; }
  const std::vector<std::uint32_t>& gathered_summaries() const { return gathered_summaries_; }
  std::uint64_t input_bytes() const { return input_used_; }
  BatchSample Sample(TimePoint now) const;
  const SpanRef& span() const { return span_; }

  void set_launched(TimePoint when) { launched_ = when; }
  // Set by the lane before it reports the batch as finished.
  absl::Status status;
  // The lane's own use (the slot the batch runs in).
  std::uint32_t lane_slot = 0;

 private:
  bool in_place() const { return kernels::SizeOf(input_type_) == kernels::SizeOf(output_type_); }
  std::byte* base() const { return span_ ? span_.address() : nullptr; }
  void AddSegment(const kernels::Segment& rows, std::uint64_t output, bool gathered, bool moves);
  void AddSummary(PendingRequest* request, const kernels::Segment& rows, std::uint64_t offset, bool gathered);
  void CountAnswer(const TensorSpec& spec);
  bool ExtendLastSegment(const kernels::Segment& rows, std::uint64_t output);
  bool TryGather(PendingRequest* request, std::uint64_t offset);
  // Whether the last segment is among these.
  bool IsLast(const std::vector<std::uint32_t>& indices) const {
    return !indices.empty() && indices.back() + 1 == segments_.size();
  }

  kernels::DataType input_type_ = kernels::DataType::kFloat32;
  kernels::DataType output_type_ = kernels::DataType::kFloat32;
  SpanRef span_;
  Need capacity_;
  std::uint64_t input_used_ = 0;
  std::uint64_t output_used_ = 0;
  std::uint64_t in_regions_ = 0;
  int device_ = Region::kHost;
  std::uint64_t output_base_ = 0;  // where the outputs begin in the span; known at Close
  std::uint64_t rows_ = 0;
  std::uint64_t work_ = 0;
  std::uint64_t input_payload_ = 0;
  std::uint64_t output_payload_ = 0;
  std::array<std::uint64_t, kAnswerKinds> answers_ = {};
  std::uint64_t saved_bytes_ = 0;
  CloseReason reason_ = CloseReason::kIdle;
  TimePoint opened_;
  TimePoint launched_;
  std::vector<PendingRequest*> requests_;
  std::vector<kernels::Segment> segments_;
  std::vector<kernels::GatherPiece> pieces_;
  std::vector<std::uint32_t> gathered_segments_;
  std::vector<std::uint32_t> moving_segments_;  // whose outputs are relative to output_base_ until Close
  std::vector<kernels::SummarySegment> summaries_;
  std::vector<std::uint32_t> gathered_summaries_;
};

}  // namespace softmax::server
