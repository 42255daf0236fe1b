#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "client/loadgen/plan/load_options.h"
#include "client/softmax_client/request.h"

// The requests of a run, made before it: their bytes lie ready in memory, and a caller only points
// gRPC at them.
namespace softmax::client {

// One request with known values. Several of each class, so that an answer that belongs to another
// request is seen.
struct Variant {
  std::size_t class_index = 0;
  std::uint64_t id = 0;
  DataType dtype = DataType::kFloat32;
  Operation operation = Operation::kSoftmax;
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 0;
  std::string message;             // a whole SoftmaxRequest, or ModelInferRequest
  std::size_t payload_offset = 0;  // the tensor's bytes within it run to its end
  SummaryOptions answer;           // what of each row is asked for; nothing: the tensor
  ExpectedAnswer expected;
  std::uint64_t answer_bytes = 0;  // of the answer's payload
  std::uint64_t most_header_bytes = 0;

  std::span<const std::byte> payload() const { return std::as_bytes(std::span(message)).subspan(payload_offset); }
};

// Where the parts of a request lie that are not in its message.
struct MessagePlaces {
  std::optional<PlaceFields> input;
  std::optional<PlaceFields> output;
  std::optional<PlaceFields> summary;
};

// Immutable after Build, so any thread may read; made before the fork, so that all processes share
// the pages. The same options make the same workload.
class Workload {
 public:
  static Workload Build(const LoadOptions& options);

  const std::vector<RequestClass>& classes() const { return classes_; }
  const std::vector<Variant>& variants() const { return variants_; }

  // The endless order in which variants are sent. An open loop follows it; the slots of a closed loop enter it at
  // different places.
  std::uint32_t VariantAt(std::uint64_t position) const { return schedule_[position % schedule_.size()]; }
  // The same with only that shape of the options.
  std::uint32_t VariantOfShape(std::int32_t shape, std::uint64_t position) const {
    const auto& mine = by_shape_[static_cast<std::size_t>(shape)];
    return mine[position % mine.size()];
  }

  // A SoftmaxRequest's header for this variant with any id. Where its input has a place, it is the whole request.
  std::string Header(const Variant& variant, std::uint64_t id, bool stream_element,
                     const MessagePlaces& places = {}) const;

 private:
  void AddClass(std::size_t class_index);
  void AddDrawn(std::size_t class_index);
  void AddVariant(std::size_t class_index, std::vector<std::int64_t> shape, std::uint64_t seed);
  void MakeSchedule();

  LoadOptions options_;
  std::vector<RequestClass> classes_;
  std::vector<Variant> variants_;
  std::vector<std::uint32_t> schedule_;
  std::vector<std::vector<std::uint32_t>> by_shape_;
};

}  // namespace softmax::client
