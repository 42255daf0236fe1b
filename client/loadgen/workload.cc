#include "client/loadgen/workload.h"

#include <algorithm>
#include <random>

#include "client/softmax_client/wire.h"
#include "kernels/reference.h"

namespace softmax::client {
namespace {

constexpr std::size_t kScheduleLength = 4096;
constexpr std::uint64_t kVariantMemory = 64u << 20;  // per shape, where two variants fit in it

Geometry GeometryOf(const std::vector<std::int64_t>& shape, std::int32_t axis) {
  const auto rank = static_cast<std::int32_t>(shape.size());
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  Geometry geometry;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i < at) geometry.outer *= shape[i];
    if (i == at) geometry.cols = shape[i];
    if (i > at) geometry.inner *= shape[i];
  }
  return geometry;
}

// Roughly normal values: quick to make, and their bits differ from element to element.
double NextNormal(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xffff);
  return (sum / 65535.0 - 2.0) * 1.7320508;
}

}  // namespace

Workload Workload::Build(const LoadOptions& options) {
  Workload workload;
  workload.options_ = options;
  for (std::size_t i = 0; i < options.shapes.size(); ++i) {
    workload.shapes_.push_back(options.shapes[i].shape);
    workload.geometries_.push_back(GeometryOf(options.shapes[i].shape, options.axis.value_or(-1)));
    workload.AddShape(i, options.seed + i * 1000);
  }
  workload.MakeSchedule(options.shapes, options.seed);
  return workload;
}

void Workload::AddShape(std::size_t shape_index, std::uint64_t seed) {
  const std::uint64_t elements = geometries_[shape_index].elements();
  const std::size_t element_size = SizeOf(options_.dtype);
  const std::uint64_t bytes = elements * element_size;
  const std::uint64_t count = std::clamp<std::uint64_t>(kVariantMemory / bytes, 2, 16);
  std::string values;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed + i);
    Variant variant;
    variant.shape_index = shape_index;
    variant.id = variants_.size() + 1;
    variant.answer_bytes = elements * SizeOf(options_.answer_dtype());
    variant.message = Header(variant, variant.id, false);
    variant.payload_offset = variant.message.size();
    values.resize(bytes);  // aligned, which the place in the message is not
    for (std::uint64_t e = 0; e < elements; ++e) {
      kernels::StoreElement(static_cast<kernels::DataType>(options_.dtype), values.data(), static_cast<std::int64_t>(e),
                            NextNormal(random));
    }
    variant.message += values;
    variants_.push_back(std::move(variant));
  }
}

void Workload::MakeSchedule(const std::vector<ShapeSpec>& specs, std::uint64_t seed) {
  double total_weight = 0;
  for (const ShapeSpec& spec : specs) total_weight += spec.weight;
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::vector<std::uint32_t> mine;
    for (std::uint32_t v = 0; v < variants_.size(); ++v) {
      if (variants_[v].shape_index == i) mine.push_back(v);
    }
    const double share = specs[i].weight / total_weight * kScheduleLength;
    const auto places = std::max<std::size_t>(1, static_cast<std::size_t>(share + 0.5));
    for (std::size_t p = 0; p < places; ++p) schedule_.push_back(mine[p % mine.size()]);
  }
  std::shuffle(schedule_.begin(), schedule_.end(), random);
}

std::string Workload::Header(const Variant& variant, std::uint64_t id, bool stream_element) const {
  RequestFields fields;
  fields.id = id;
  fields.operation = options_.operation;
  fields.axis = options_.axis;
  fields.scale = options_.scale;
  fields.output_dtype = options_.output_dtype;
  fields.dtype = options_.dtype;
  fields.shape = shapes_[variant.shape_index];
  fields.data_bytes = geometries_[variant.shape_index].elements() * SizeOf(options_.dtype);
  if (stream_element && options_.timeout.count() > 0) {
    fields.timeout_us = static_cast<std::uint32_t>(options_.timeout.count() / 1000);
  }
  std::string header;
  AppendRequestHeader(fields, stream_element ? Framing::kStreamElement : Framing::kUnary, &header);
  return header;
}

std::string Workload::StreamElementHeader(const Variant& variant, std::uint64_t id) const {
  return Header(variant, id, true);
}

}  // namespace softmax::client
