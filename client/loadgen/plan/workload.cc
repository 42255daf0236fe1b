#include "client/loadgen/plan/workload.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "client/loadgen/plan/oip_message.h"
#include "client/softmax_client/wire.h"
#include "kernels/reference.h"

namespace softmax::client {
namespace {

constexpr std::size_t kScheduleLength = 4096;
// A class has as many variants as this holds, but at least two. It fits into a core's cache: the variants are sent
// again and again, and reading them from memory would limit the generator.
constexpr std::uint64_t kVariantMemory = 256u << 10;
// A class with random shapes draws kMinDrawn of them, then more, up to kMaxDrawn, until they fill kDrawnMemory. Each is
// sent equally often, in a shuffled order.
constexpr std::uint64_t kMinDrawn = 8;
constexpr std::uint64_t kMaxDrawn = 1024;
constexpr std::uint64_t kDrawnMemory = 128u << 20;
// What an answer may have beside the bytes of each of its tensors.
constexpr std::uint64_t kMostHeaderBytes = 256;

// Roughly normal values: quick to make, and their bits differ from element to element.
double NextNormal(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xffff);
  return (sum / 65535.0 - 2.0) * 1.7320508;
}

void AddPayload(std::uint64_t bytes, Variant* variant) {
  if (bytes == 0) return;
  variant->answer_bytes += bytes;
  variant->most_header_bytes += kMostHeaderBytes;
}

}  // namespace

Workload Workload::Build(const LoadOptions& options) {
  Workload workload;
  workload.options_ = options;
  workload.classes_ = ClassesOf(options.mix);
  for (std::size_t c = 0; c < workload.classes_.size(); ++c) {
    if (workload.classes_[c].shape.empty()) {
      workload.AddDrawn(c);
    } else {
      workload.AddClass(c);
    }
  }
  workload.MakeSchedule();
  return workload;
}

void Workload::AddClass(std::size_t class_index) {
  const RequestClass& of = classes_[class_index];
  const std::uint64_t bytes = *ElementsOf(of.shape) * SizeOf(of.dtype);
  const std::uint64_t count = std::clamp<std::uint64_t>(kVariantMemory / bytes, 2, 16);
  for (std::uint64_t i = 0; i < count; ++i) AddVariant(class_index, of.shape, options_.seed + class_index * 1000 + i);
}

void Workload::AddDrawn(std::size_t class_index) {
  const RequestClass& of = classes_[class_index];
  std::mt19937_64 random(options_.seed + class_index);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < kMaxDrawn && (i < kMinDrawn || bytes < kDrawnMemory); ++i) {
    const std::int64_t rows = options_.mix.rows->Draw(random);
    const std::int64_t columns = options_.mix.columns->Draw(random);
    AddVariant(class_index, {rows, columns}, options_.seed + class_index * kMaxDrawn + i);
    bytes += static_cast<std::uint64_t>(rows * columns) * SizeOf(of.dtype);
  }
}

void Workload::AddVariant(std::size_t class_index, std::vector<std::int64_t> shape, std::uint64_t seed) {
  const RequestClass& of = classes_[class_index];
  Variant variant;
  variant.class_index = class_index;
  variant.id = variants_.size() + 1;
  variant.dtype = of.dtype;
  variant.operation = of.operation;
  variant.shape = std::move(shape);
  const std::uint64_t elements = variant.elements = *ElementsOf(variant.shape);
  variant.answer = of.answer;
  variant.message = Header(variant, variant.id, false);
  variant.payload_offset = variant.message.size();
  std::string values(elements * SizeOf(of.dtype), 0);  // aligned, which the place in the message is not
  std::mt19937_64 random(seed);
  for (std::uint64_t e = 0; e < elements; ++e) {
    kernels::StoreElement(static_cast<kernels::DataType>(of.dtype), values.data(), static_cast<std::int64_t>(e),
                          NextNormal(random));
  }
  variant.message += values;
  SoftmaxOptions asked;
  asked.axis = options_.axis;
  asked.output_dtype = options_.output_dtype;
  asked.summary = of.answer;
  variant.expected = ExpectedAnswer({of.dtype, variant.shape, variant.payload()}, asked);
  if (variant.expected.has_tensor) AddPayload(elements * SizeOf(variant.expected.dtype), &variant);
  for (const std::uint64_t bytes : variant.expected.part_bytes) AddPayload(bytes, &variant);
  variants_.push_back(std::move(variant));
}

void Workload::MakeSchedule() {
  double total_weight = 0;
  for (const RequestClass& of : classes_) total_weight += of.weight;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    std::vector<std::uint32_t> mine;
    for (std::uint32_t v = 0; v < variants_.size(); ++v) {
      if (variants_[v].class_index == c) mine.push_back(v);
    }
    const double share = classes_[c].weight / total_weight * kScheduleLength;
    const auto places = std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(share)));
    for (std::size_t p = 0; p < places; ++p) schedule_.push_back(mine[p % mine.size()]);
  }
  std::mt19937_64 random(options_.seed);
  std::shuffle(schedule_.begin(), schedule_.end(), random);
  by_shape_.resize(classes_.back().shape_index + 1);
  for (const std::uint32_t v : schedule_) by_shape_[classes_[variants_[v].class_index].shape_index].push_back(v);
}

std::string Workload::Header(const Variant& variant, std::uint64_t id, bool stream_element,
                             const MessagePlaces& places) const {
  RequestFields fields;
  fields.id = id;
  fields.operation = variant.operation;
  fields.axis = options_.axis;
  fields.scale = options_.scale;
  fields.output_dtype = options_.output_dtype;
  fields.summary = variant.answer;
  fields.dtype = variant.dtype;
  fields.shape = variant.shape;
  fields.place = places.input;
  fields.output_place = places.output;
  fields.summary_place = places.summary;
  fields.data_bytes = places.input ? 0 : variant.elements * SizeOf(variant.dtype);
  if (stream_element && options_.timeout.count() > 0) {
    fields.timeout_us = static_cast<std::uint32_t>(options_.timeout.count() / 1000);
  }
  std::string header;
  if (options_.protocol == Protocol::kOip) {
    AppendInferRequestHeader(fields, &header);
    return header;
  }
  AppendRequestHeader(fields, stream_element ? Framing::kStreamElement : Framing::kUnary, &header);
  return header;
}

}  // namespace softmax::client
