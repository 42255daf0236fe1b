#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>

#include "tests/server/batching/fakes.h"

namespace softmax::server::testing {

// A request whose message lies where the device can read it.
class ReceivedRequest : public testing::TestRequest {
 public:
  ReceivedRequest(std::span<const std::byte> message, std::int64_t cols) : TestRequest(1, cols), message_(message) {}
  void LendInput(InputPieces* pieces) override { pieces->assign(1, {message_.data(), message_.size()}); }

 private:
  const std::span<const std::byte> message_;
};

// Batches of one request in an arena of 64 slabs, for tests that drive a lane by hand.
class LaneFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t kSlab = 4096;

  struct Launched {
    Launched() : request(1, 8, 1) {}
    TestRequest request;
    Batch batch;
  };

  // Opens and closes a batch of `bytes`, by default a slab. `device`: whose memory its request lies in.
  std::unique_ptr<Launched> Fill(std::uint64_t bytes = kSlab, int device = Region::kHost) {
    auto launched = std::make_unique<Launched>();
    if (device != Region::kHost) launched->request.PutInto(MakeRegion(16, 1, device), {.input = 0, .output = 32});
    if (bytes > kSlab) launched->request.mutable_spec().outer = static_cast<std::int64_t>(bytes / 32);
    const TimePoint now = SteadyClock::now();
    const TensorSpec& spec = launched->request.spec();
    launched->batch.Open(spec.input_type, spec.output_type, SpanRef(&arena_, arena_.TryReserve(bytes)),
                         Batch::Need{bytes, 0}, now);
    launched->batch.Add(&launched->request, now);
    launched->batch.Close(CloseReason::kIdle);
    launched->batch.set_launched(now);
    return launched;
  }
  static absl::Status Complete(Batch* batch) {
    const absl::Status status = batch->status;
    batch->Complete(status, SteadyClock::now());
    return status;
  }

  TestMemory memory_{64 * kSlab};
  Arena arena_{memory_.data(), 64 * kSlab, kSlab};
};

}  // namespace softmax::server::testing
