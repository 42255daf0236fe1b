#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/loadgen/options.h"

// The requests of a run, made before it: their bytes lie ready in memory, and a slot only points
// gRPC at them.
namespace softmax::client {

// A tensor seen as [outer, cols, inner] around its axis.
struct Geometry {
  std::int64_t outer = 1;
  std::int64_t cols = 1;
  std::int64_t inner = 1;
  std::uint64_t elements() const { return static_cast<std::uint64_t>(outer * cols * inner); }
};

// One request with known values. Several of each shape, so that an answer that belongs to another
// request is seen.
struct Variant {
  std::size_t shape_index = 0;
  std::uint64_t id = 0;
  std::string message;             // a whole SoftmaxRequest
  std::size_t payload_offset = 0;  // the tensor's bytes within it run to its end
  std::uint64_t answer_bytes = 0;  // of the answer's tensor

  std::span<const std::byte> payload() const { return std::as_bytes(std::span(message)).subspan(payload_offset); }
};

// Immutable after Build, so any thread may read; made before the fork, so that all processes share
// the pages.
class Workload {
 public:
  static Workload Build(const LoadOptions& options);

  const std::vector<Variant>& variants() const { return variants_; }
  const Geometry& geometry(const Variant& variant) const { return geometries_[variant.shape_index]; }
  const std::vector<std::int64_t>& shape(const Variant& variant) const { return shapes_[variant.shape_index]; }

  // The endless order in which variants are sent; slots enter it at different places.
  std::uint32_t VariantAt(std::uint64_t position) const { return schedule_[position % schedule_.size()]; }

  // A SoftmaxRequest's header for this variant with another id, as an element of a stream message.
  std::string StreamElementHeader(const Variant& variant, std::uint64_t id) const;

 private:
  void AddShape(std::size_t shape_index, std::uint64_t seed);
  void MakeSchedule(const std::vector<ShapeSpec>& specs, std::uint64_t seed);
  std::string Header(const Variant& variant, std::uint64_t id, bool stream_element) const;

  LoadOptions options_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<Geometry> geometries_;
  std::vector<Variant> variants_;
  std::vector<std::uint32_t> schedule_;
};

}  // namespace softmax::client
