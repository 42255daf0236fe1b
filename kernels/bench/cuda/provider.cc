#include "kernels/bench/cuda/provider.h"

#include "kernels/bench/cuda/copy.h"
#include "kernels/bench/cuda/fill.h"
#include "kernels/bench/cuda/ours.h"
#include "kernels/bench/runner.h"

namespace softmax::kernels::bench {

Provider MakeCopy() {
  Provider provider{kCopy, {}, [](const Point&) { return true; }, Strictness::kRough};
  for (const CopyForm form : kCopyForms) {
    provider.forms.push_back([form](const Slot& slot, cudaStream_t stream) {
      const Segment& first = slot.segments.front();
      if (slot.summary.top_k > 0) return cudaErrorNotSupported;
      return LaunchCopy(form, first.input, slot.input_bytes, first.output, slot.output_bytes, stream);
    });
  }
  for (const ReadForm form : kReadForms) {
    provider.forms.push_back([form](const Slot& slot, cudaStream_t stream) {
      if (slot.summary.top_k == 0) return cudaErrorNotSupported;
      return LaunchRead(form, slot.segments.front().input, slot.input_bytes, stream);
    });
  }
  return provider;
}

Provider MakeOurs() {
  const auto ours = std::make_shared<Ours>();
  const Launch launch = [ours](const Slot& slot, cudaStream_t stream) {
    if (slot.summary.top_k > 0) return ours->Summarize(slot.dtype, slot.output_dtype, slot.summary, slot.index, stream);
    return ours->Launch(slot.dtype, slot.output_dtype, slot.segments, slot.index, stream);
  };
  return {kOurs, {launch}, [](const Point&) { return true; }, Strictness::kBounds};
}

}  // namespace softmax::kernels::bench
