#include "kernels/bench/cuda/ours.h"

namespace softmax::kernels::bench {

Ours::Ours() {
  CudaCheck(PrepareSoftmaxKernels(), "PrepareSoftmaxKernels");
  workspaces_.Reserve(kWorkspaces * kSoftmaxWorkspaceBytes);
  CudaCheck(cudaMemset(workspaces_.data(), 0, kWorkspaces * kSoftmaxWorkspaceBytes), "cudaMemset");
}

cudaError_t Ours::Launch(DataType dtype, DataType output_dtype, const std::vector<Segment>& segments, std::size_t slot,
                         cudaStream_t stream, Placement placement) {
  auto* const workspace =
      reinterpret_cast<std::uint32_t*>(workspaces_.data() + slot % kWorkspaces * kSoftmaxWorkspaceBytes);
  if (segments.size() == 1 && placement == Placement::kDevice) {
    return LaunchSoftmax(dtype, output_dtype, segments.front(), stream, workspace);
  }
  const auto count = static_cast<std::int64_t>(segments.size());
  while (scratch_.size() <= slot) scratch_.push_back(std::make_unique<Memory>(Memory::Where::kHost));
  Memory& scratch = *scratch_[slot];
  scratch.Reserve(SoftmaxBatchScratchBytes(segments.data(), count, placement));
  return LaunchSoftmaxBatch(dtype, output_dtype, segments.data(), count, scratch.data(), scratch.bytes(),
                            {nullptr, 0, workspace}, stream, placement);
}

cudaError_t Ours::Summarize(DataType dtype, DataType output_dtype, const SummarySegment& summary, std::size_t slot,
                            cudaStream_t stream) {
  while (summary_workspaces_.size() <= slot) {
    summary_workspaces_.push_back(std::make_unique<Memory>(Memory::Where::kDevice));
  }
  Memory& workspace = *summary_workspaces_[slot];
  if (workspace.Reserve(SummaryWorkspaceBytes(dtype, &summary, 1))) {
    CudaCheck(cudaMemset(workspace.data(), 0, workspace.bytes()), "cudaMemset");
  }
  return LaunchSummaries(dtype, output_dtype, &summary, 1, nullptr, 0, workspace.data(), workspace.bytes(), {}, stream);
}

}  // namespace softmax::kernels::bench
