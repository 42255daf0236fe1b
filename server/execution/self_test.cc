#include "server/execution/self_test.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <thread>
#include <utility>

#include "server/execution/devices.h"

namespace softmax::server {
namespace {

// One row 0, 1, 2, ...; its softmax is known in closed form: exp(i) (e - 1) / (e^n - 1).
class SelfTestRequest final : public PendingRequest {
 public:
  static constexpr int kColumns = 16;
  SelfTestRequest() {
    spec_.outer = 1;
    spec_.cols = kColumns;
    arrived_ = SteadyClock::now();
  }
  void CopyInput(std::byte* destination) override {
    auto* const row = reinterpret_cast<float*>(destination);
    for (int i = 0; i < kColumns; ++i) row[i] = static_cast<float>(i);
  }
  const std::uint32_t* lengths() const override { return nullptr; }
  void Complete(const Answer& answer) override {
    result = answer.status;
    if (!result.ok()) return;
    const auto* const row = reinterpret_cast<const float*>(answer.output);
    for (int i = 0; i < kColumns; ++i) {
      const double expected = std::exp(i) * std::expm1(1.0) / std::expm1(kColumns);
      if (!(std::abs(row[i] - expected) <= 1e-5 * expected)) {
        result = absl::InternalError(absl::StrCat("self-test: element ", i, " is ", row[i], "; expected ", expected));
        return;
      }
    }
  }
  absl::Status result;
};

// Everything a launch refers to, in one piece that can outlive the test.
struct Launched {
  explicit Launched(std::byte* memory) : arena(memory, kSelfTestBytes, kSelfTestBytes) {}
  Arena arena;
  SelfTestRequest request;
  Batch batch;
};

// What tests that got no answer have left behind; reachable, never freed.
void KeepForEver(std::unique_ptr<Lane> lane, std::unique_ptr<Launched> launched) {
  static auto* const mu = new Mutex;
  static auto* const kept = new std::vector<std::pair<std::unique_ptr<Lane>, std::unique_ptr<Launched>>>;
  MutexLock lock(*mu);
  kept->emplace_back(std::move(lane), std::move(launched));
}

}  // namespace

absl::Status SelfTest(std::unique_ptr<Lane>& lane, std::byte* memory, Nanoseconds limit, const std::stop_token& stop) {
  auto launched = std::make_unique<Launched>(memory);
  Batch& batch = launched->batch;
  SelfTestRequest& request = launched->request;
  const TimePoint begin = SteadyClock::now();
  const Span span = launched->arena.TryReserve(kSelfTestBytes);
  batch.Open(request.spec().input_type, request.spec().output_type, SpanRef(&launched->arena, span),
             Batch::NeedOf(request.spec()), begin);
  batch.Add(&request, begin);
  batch.Close(CloseReason::kIdle);
  batch.set_launched(begin);
  lane->Launch(&batch);
  while (lane->Poll() == nullptr) {
    if (SteadyClock::now() - begin > limit || stop.stop_requested()) {
      KeepForEver(std::move(lane), std::move(launched));
      return absl::DeadlineExceededError(absl::StrCat("self-test: no answer from the device within ",
                                                      std::chrono::duration<double>(limit).count(), " s"));
    }
    std::this_thread::yield();
  }
  batch.Complete(batch.status, SteadyClock::now());
  return request.result;
}

}  // namespace softmax::server
