#pragma once

#include <cstdint>

// Which of a launch's segments an item belongs to, with a copy of it in shared memory.
namespace softmax::kernels::cuda {

template <typename Segment>
class SegmentWalk {
 public:
  // `first_of`: what tells a segment's first item. `copy`: in shared memory.
  __device__ __forceinline__ SegmentWalk(const Segment* segments, std::uint32_t count, std::int64_t Segment::*first_of,
                                         Segment& copy)
      : first_of_(first_of), segments_(segments), count_(count), copy_(copy) {}

  // By whole warps: whether the item's segment is another one than before, to be copied by Load(). Items only grow.
  __device__ __forceinline__ bool MovesTo(std::int64_t item) {
    const bool moves = is_new_ || (index_ + 1 < count_ && segments_[index_ + 1].*first_of_ <= item);
    is_new_ = false;
    if (moves) Find(item);
    return moves;
  }
  // By the whole block, before which nobody needs the copy of the one before any more.
  __device__ __forceinline__ void Load() const {
    constexpr int kWords = sizeof(Segment) / sizeof(std::uint32_t);
    __syncthreads();
    if (threadIdx.x < kWords) {
      reinterpret_cast<std::uint32_t*>(&copy_)[threadIdx.x] =
          reinterpret_cast<const std::uint32_t*>(segments_ + index_)[threadIdx.x];
    }
    __syncthreads();
  }

 private:
  // A warp looks at 32 at a time: in the host's memory each look costs a trip over the bus.
  __device__ __forceinline__ void Find(std::int64_t item) {
    for (std::uint32_t count = count_ - index_; count > 1;) {
      const std::uint32_t step = (count + 31) / 32;
      const std::uint32_t at = threadIdx.x % 32 * step;
      const bool begins = at < count && segments_[index_ + at].*first_of_ <= item;  // the warp's first lane's does
      const auto before = static_cast<std::uint32_t>(__popc(__ballot_sync(0xffffffffu, begins)) - 1) * step;
      index_ += before;
      count = min(step, count - before);
    }
  }

  std::int64_t Segment::*const first_of_;
  const Segment* const segments_;
  const std::uint32_t count_;
  Segment& copy_;
  std::uint32_t index_ = 0;
  bool is_new_ = true;
};

}  // namespace softmax::kernels::cuda
