#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/plan/workload.h"
#include "client/softmax_client/regions.h"

namespace softmax::client {

// What one request in flight has of its process's region. Its memory is used by one thread.
struct RegionSlot {
  std::uint64_t input = 0;  // kAuto
  std::uint64_t output = 0;
  std::uint64_t summary = 0;
  std::vector<std::byte> copy;  // kAuto: what a caller would have of the answer
  // A request failed in such a way that the server may still write its answer here: nothing is verified any more.
  bool uncertain = false;

  void Failed(int code);
};

// The answer to a request as it lay in the region when it came.
struct PlacedAnswer {
  ExpectedAnswer expected;
  std::vector<std::byte> tensor;
  std::vector<std::byte> summary;
};

// The region of a sending process (--regions): every variant's input lies there, and every slot has room for an answer.
// Thread-safe, but for slots.
class SendingRegion {
 public:
  // `slots`: requests that the process has in flight. Null: kAuto, and the server shares no memory.
  static absl::StatusOr<std::unique_ptr<SendingRegion>> Make(const LoadOptions& options, const Workload& workload,
                                                             std::size_t slots);

  RegionSlot TakeSlot();

  // The whole of a request; for a stream, of one element.
  std::string Message(const Variant& variant, std::uint64_t id, bool stream_element, const RegionSlot& slot) const;

  // Before it is sent. `judged`: its answer is to be verified, and what is left there of another must not pass for it.
  void Begin(const Variant& variant, bool judged, RegionSlot& slot) const;
  // When it is answered.
  void End(const Variant& variant, RegionSlot& slot) const;
  // The same, for the verifier.
  PlacedAnswer Answer(const Variant& variant, const RegionSlot& slot) const;

 private:
  SendingRegion(const LoadOptions& options, const Workload& workload, std::size_t slots);
  MessagePlaces PlacesOf(const Variant& variant, const RegionSlot& slot) const;
  PlaceFields At(std::uint64_t offset) const { return {memory_->token(), offset}; }

  const Workload& workload_;
  const bool copies_;                  // kAuto
  std::vector<std::uint64_t> inputs_;  // offsets; kAuto: none
  std::uint64_t slot_input_ = 0;       // bytes of a slot's parts
  std::uint64_t slot_output_ = 0;
  std::uint64_t slot_summary_ = 0;
  std::uint64_t first_slot_ = 0;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<RegionMemory> memory_;
  Region region_;
  std::atomic<std::uint64_t> taken_ = 0;
};

}  // namespace softmax::client
