#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

// The CUDA kernels. No call synchronizes, allocates, logs or throws; each takes its stream last and may be captured
// into a CUDA graph. Pointers may be device memory or mapped pinned host memory. Semantics: kernels/types.h.
// On sm_90 and later, launches of one type are programmatic dependent ones: their blocks may take their places before
// the kernel before them in the stream has ended, and touch no memory of the caller's but a batch's scratch until it
// has. A kernel of the caller's own that is launched that way after them has to wait in the same manner
// (griddepcontrol.wait).
namespace softmax::kernels {

// Device memory that a launch may use for its blocks to find each other: zero before the first use, its first
// kSoftmaxWorkspaceZeroBytes left zero by every launch, and the rest not written by anybody else in between. One per
// stream: launches that may run at the same time must not share it. Rows so wide that only many blocks together hold
// them need it to be read once; without it they are read twice.
constexpr std::size_t kSoftmaxWorkspaceBytes = std::size_t{512} << 10;
constexpr std::size_t kSoftmaxWorkspaceZeroBytes = 4096;

// Tells the host that everything a launch wrote is visible to it: the launch's last block stores `value` to `*flag`
// with a system-scope release after all output is written.
struct Completion {
  std::uint32_t* flag = nullptr;  // mapped pinned memory; nullptr: no flag is written
  std::uint32_t value = 0;
  std::uint32_t* workspace = nullptr;  // kSoftmaxWorkspaceBytes; may be nullptr where there is no flag
};

// Where a launch's tensors lie. Its speed depends on it; no bit of its results does.
// kDevice: in the device's memory. The input may be prefetched into the L2 as soon as the previous launch in the stream
// has begun. Later writes by the device are seen; the host must not write its memory once the launch is enqueued.
// kHost: in the host's memory, across a link. Both directions of the link work at the same time only if few rows are in
// flight at once, since all of those are read before the first is written. So few blocks run a matrix of 512 KB and
// more, if its rows have at most 128 KB and, where they have less than 512 bytes, lie densely from a 128-byte line on.
// Others are run as in device memory (wider rows from 4 MB on, with scratch, as with kSharedHost).
// kSharedHost: as kHost, while other launches use the link, too. Few blocks are used from 256 KB on, and for batches as
// well. Such a launch takes longer alone, but several at once take less time together.
enum class Placement : std::uint8_t { kDevice, kHost, kSharedHost };

// Bytes of scratch that LaunchSoftmaxBatch needs for these segments (0 for few). It grows with the segments and, up to
// a limit, with their rows. With kHost and kSharedHost: that it can use.
[[nodiscard]] std::size_t SoftmaxBatchScratchBytes(const Segment* segments, std::int64_t count,
                                                   Placement placement = Placement::kDevice);

// Enqueues one launch that runs all segments (one input type and one output type for all), and one more for each that
// is over another axis beside others. `segments` is read during the call only. `scratch` is mapped pinned host memory,
// 16-byte aligned, of at least SoftmaxBatchScratchBytes(); the call writes the launch's work list there and the kernel
// reads it, so it must stay untouched until the launch has finished. Segments without rows or columns are skipped; with
// nothing to do, nothing is launched, but the flag is still written in stream order. Beyond a link one segment of wide
// rows uses scratch too, where there is enough.
// Returns cudaErrorInvalidValue, before anything is launched, for a negative size or stride, a null pointer with a
// non-zero size, a pointer not aligned to its element, an unsupported type or operation, a scale that is not finite and
// > 0, an overlap of input and output that is not exact aliasing (from their first to their last element, gaps between
// blocks included), output blocks that overlap each other, a flag without a workspace, or too little scratch; otherwise
// what the launch returned. Bits may differ between GPU architectures, not between devices of one.
[[nodiscard]] cudaError_t LaunchSoftmaxBatch(DataType input_type, DataType output_type, const Segment* segments,
                                             std::int64_t count, void* scratch, std::size_t scratch_bytes,
                                             Completion completion, cudaStream_t stream,
                                             Placement placement = Placement::kDevice);

// The same for one segment, without scratch and flag. `workspace`: nullptr or kSoftmaxWorkspaceBytes, see above.
[[nodiscard]] cudaError_t LaunchSoftmax(DataType input_type, DataType output_type, const Segment& segment,
                                        cudaStream_t stream, std::uint32_t* workspace = nullptr,
                                        Placement placement = Placement::kDevice);

// Device memory that LaunchSummaries needs for these segments: 16-byte aligned, one per stream, with any contents. A
// multiple of 16; 0 where all rows are small. It grows with the segments' bytes, by a 128th of them, or a 13th where
// top_k is above 7/8 of the row's chunks of 2 KB.
[[nodiscard]] std::size_t SummaryWorkspaceBytes(DataType input_type, const SummarySegment* segments,
                                                std::int64_t count);
// Enough for any segments whose inputs have so many bytes together, fewer than 4 GiB.
[[nodiscard]] std::size_t SummaryWorkspaceBytes(std::uint64_t input_bytes);
// The mapped pinned host memory that it needs for so many segments (0 for few), as LaunchSoftmaxBatch's scratch.
[[nodiscard]] std::size_t SummaryScratchBytes(std::int64_t count);

// Enqueues up to three launches that summarize all segments (kernels/types.h). They read each input once, but for the
// parts of wide rows that hold the largest, and write nothing but the arrays that are asked for and the workspace.
// Segments without rows or columns are skipped. Everything else is as with LaunchSoftmaxBatch; of its errors those that
// concern outputs are about the summary's arrays: one without its companion, or misaligned; a top_k above kMaxTopK;
// more than 2^31 columns.
[[nodiscard]] cudaError_t LaunchSummaries(DataType input_type, DataType output_type, const SummarySegment* segments,
                                          std::int64_t count, void* scratch, std::size_t scratch_bytes, void* workspace,
                                          std::size_t workspace_bytes, Completion completion, cudaStream_t stream);

// Enqueues copies of all pieces to their places at `destination` (device memory), as few launches as they fit into. The
// pieces' sources may begin and end at any byte of device memory or mapped pinned host memory; no two may overlap in
// the destination. `pieces` is read during the call only. Up to 15 bytes before and behind a piece are read too, never
// across a 16-byte boundary. Without pieces nothing is launched. Returns cudaErrorInvalidValue for a negative count or
// a null pointer with a non-zero size, otherwise what the launch returned.
[[nodiscard]] cudaError_t LaunchGather(const GatherPiece* pieces, std::int64_t count, void* destination,
                                       cudaStream_t stream);

// Loads every kernel variant and sets its attributes on the current device, so that no later launch loads code or takes
// device memory. Call once per device before the first launch.
[[nodiscard]] cudaError_t PrepareSoftmaxKernels();

}  // namespace softmax::kernels
