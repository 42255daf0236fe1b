#include "client/loadgen/send/sending_region.h"

#include <unistd.h>

#include <algorithm>

#include "client/base/program.h"
#include "client/softmax_client/client_core.h"

namespace softmax::client {
namespace {

// Rows that begin at such addresses are read fastest.
constexpr std::uint64_t kAlignment = 256;

std::uint64_t Aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t TensorBytes(const Variant& variant) {
  return variant.expected.has_tensor ? variant.elements * SizeOf(variant.expected.dtype) : 0;
}

// A region that cannot be read or written is the end of the run, and not of a request.
void Must(const absl::Status& status) {
  if (status.ok()) return;
  Say(std::string(status.message()));
  _exit(1);
}

}  // namespace

void RegionSlot::Failed(int code) {
  const auto is = [code](absl::StatusCode refusal) { return code == static_cast<int>(refusal); };
  uncertain = uncertain || !(is(absl::StatusCode::kInvalidArgument) || is(absl::StatusCode::kNotFound) ||
                             is(absl::StatusCode::kResourceExhausted));
}

SendingRegion::SendingRegion(const LoadOptions& options, const Workload& workload, std::size_t slots)
    : workload_(workload), copies_(options.regions == RegionKind::kAuto) {
  for (const Variant& variant : workload.variants()) {
    slot_output_ = std::max(slot_output_, Aligned(TensorBytes(variant)));
    slot_summary_ = std::max(slot_summary_, Aligned(variant.expected.PlacedSummaryBytes()));
    const std::uint64_t input = Aligned(variant.payload().size());
    if (copies_) {
      slot_input_ = std::max(slot_input_, input);
      continue;
    }
    inputs_.push_back(first_slot_);
    first_slot_ += input;
  }
  bytes_ = first_slot_ + slots * (slot_input_ + slot_output_ + slot_summary_);
}

absl::StatusOr<std::unique_ptr<SendingRegion>> SendingRegion::Make(const LoadOptions& options, const Workload& workload,
                                                                   std::size_t slots) {
  std::unique_ptr<SendingRegion> made(new SendingRegion(options, workload, slots));
  ClientOptions as_here{.target = options.addresses.front().target, .deadline = options.connect_timeout};
  SetCredentials(options.security, &as_here);
  ClientCore core(as_here, options.addresses);
  const Memory kind = options.regions == RegionKind::kDevice ? Memory::kDevice : Memory::kHost;
  auto memory = core.regions.AllocateMemory(made->bytes_, kind, std::nullopt);
  if (!memory.ok()) {
    if (made->copies_) return nullptr;
    return memory.status();
  }
  made->memory_ = *std::move(memory);
  made->region_ = Region(made->memory_);
  for (std::size_t v = 0; v < made->inputs_.size(); ++v) {
    absl::Status written = made->region_.Write(made->inputs_[v], workload.variants()[v].payload());
    if (!written.ok()) return written;
  }
  return made;
}

RegionSlot SendingRegion::TakeSlot() {
  RegionSlot slot;
  slot.input = first_slot_ + taken_.fetch_add(1) * (slot_input_ + slot_output_ + slot_summary_);
  slot.output = slot.input + slot_input_;
  slot.summary = slot.output + slot_output_;
  if (copies_) slot.copy.resize(std::max(slot_output_, slot_summary_));
  return slot;
}

MessagePlaces SendingRegion::PlacesOf(const Variant& variant, const RegionSlot& slot) const {
  MessagePlaces places;
  places.input = At(copies_ ? slot.input : inputs_[variant.id - 1]);
  if (variant.expected.has_tensor) places.output = At(slot.output);
  if (variant.expected.has_summary) places.summary = At(slot.summary);
  return places;
}

std::string SendingRegion::Message(const Variant& variant, std::uint64_t id, bool stream_element,
                                   const RegionSlot& slot) const {
  return workload_.Header(variant, id, stream_element, PlacesOf(variant, slot));
}

void SendingRegion::Begin(const Variant& variant, bool judged, RegionSlot& slot) const {
  if (copies_) Must(region_.Write(slot.input, variant.payload()));
  if (!judged) return;
  // NaN in every type.
  Must(region_.Write(slot.output, std::vector<std::byte>(TensorBytes(variant), std::byte{0xff})));
  Must(region_.Write(slot.summary, std::vector<std::byte>(variant.expected.PlacedSummaryBytes(), std::byte{0xff})));
}

void SendingRegion::End(const Variant& variant, RegionSlot& slot) const {
  if (!copies_) return;
  Must(region_.Read(slot.output, std::span(slot.copy).first(TensorBytes(variant))));
  Must(region_.Read(slot.summary, std::span(slot.copy).first(variant.expected.PlacedSummaryBytes())));
}

PlacedAnswer SendingRegion::Answer(const Variant& variant, const RegionSlot& slot) const {
  PlacedAnswer answer{variant.expected, std::vector<std::byte>(TensorBytes(variant)),
                      std::vector<std::byte>(variant.expected.PlacedSummaryBytes())};
  Must(region_.Read(slot.output, answer.tensor));
  Must(region_.Read(slot.summary, answer.summary));
  const MessagePlaces places = PlacesOf(variant, slot);
  answer.expected.output_place = places.output;
  answer.expected.summary_place = places.summary;
  return answer;
}

}  // namespace softmax::client
