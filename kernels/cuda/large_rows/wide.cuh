#pragma once

#include "kernels/cuda/blocks/grid_table.cuh"
#include "kernels/cuda/blocks/matrix.cuh"
#include "kernels/cuda/blocks/slice.cuh"

// Rows wider than a cluster holds, or than a block where there are no clusters: several blocks share a row, each some
// neighbouring groups of chunks, and exchange statistics through device memory. The grid is launched cooperatively, as
// the blocks wait for each other; the parts of all rows are dealt out to them in turn. What a block cannot keep in
// shared memory it reads again.
//
// A block takes its parts in order, and each only after it has seen all of its last row: so the parts of the first row
// that is not complete are all being read, by blocks that wait for nothing else.
namespace softmax::kernels::cuda {

template <typename C>
struct WideTables {
  Stats<C> chunks[2 * kGroupChunks];  // of one group and the next
  Stats<C> entries[kFlatChunks];      // of the row
  Stats<C> row;
};

template <typename In>
class WideRows {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ WideRows(const MatrixParams& params, uint4* shared, WideTables<C>* tables)
      : params_(params), shared_(shared), tables_(tables), scale_(ScaleOf<C>(params)), table_(params) {}

  __device__ __forceinline__ void Run() {
    const int items = static_cast<int>(params_.rows) * params_.row_blocks;
#pragma unroll 1
    for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) RunPart(item);
  }

 private:
  // Whether the row's chunks are folded one by one and not in groups.
  __device__ __forceinline__ bool IsFlat() const { return params_.chunks <= kFlatChunks; }
  __device__ __forceinline__ int Entries() const { return IsFlat() ? params_.chunks : params_.groups; }

  // A block's part of a row: the last of its groups stays in shared memory, those before it are read again.
  __device__ __forceinline__ void RunPart(int item) {
    row_ = item / params_.row_blocks;
    valid_ = static_cast<int>(ValidLength(params_, row_));
    const int first = item % params_.row_blocks * params_.block_groups;
    const int last = min(first + params_.block_groups, params_.groups) - 1;
    Start(first);
    if (warp_ == 0) table_.AwaitPlace(row_);  // while its copies are on their way
#pragma unroll 1
    for (int group = first; group <= last; ++group) {
      Reduce(group);
      if (group < last) Start(group + 1);
      __syncthreads();
      Publish(group);
    }
    const Normalizer<C> normalize(scale_, RowStats(), params_.log, valid_ == 0);
    LeavePlace();
#pragma unroll 1
    for (int group = last; group >= first; --group) {
      if (group < last) {
        Start(group);
        __pipeline_wait_prior(0);
        __syncwarp();
      }
      Store(group, normalize);
    }
  }

  __device__ __forceinline__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  // The warp's share of a group: the first warps take a chunk more, so that all have about as many.
  __device__ __forceinline__ int Chunks() const { return params_.warp_chunks + (warp_ < params_.warps ? 1 : 0); }
  __device__ __forceinline__ int FirstChunk() const { return params_.warp_chunks * warp_ + min(warp_, params_.warps); }
  __device__ __forceinline__ int Column(int group) const {
    return (group * params_.block_chunks + first_chunk_) * Element<In>::kChunk;
  }
  __device__ __forceinline__ const In* Input(int group) const {
    return static_cast<const In*>(params_.input) + row_ * params_.input_stride + Column(group);
  }
  __device__ __forceinline__ Slice<In, true> SliceOf(int group) const {
    return Slice<In, true>(Input(group), valid_ - Column(group), Chunks(), shared_ + warp_ * params_.warp_vectors);
  }
  __device__ __forceinline__ void Start(int group) const {
    if (Chunks() <= 0) return;
    SliceOf(group).template Start<true>(Input(group),
                                        AroundOf<In>(params_, row_, Column(group), valid_ - Column(group)));
  }
  __device__ __forceinline__ Stats<C>* GroupTable(int group) const {
    return tables_->chunks + (group & 1) * kGroupChunks;
  }
  __device__ __forceinline__ void Reduce(int group) {
    if (Chunks() <= 0) return;
    SliceOf(group).template Reduce<true>(params_.log && Column(group) == 0 ? valid_ : kManyColumns, scale_,
                                         [&](int k, const Stats<C>& stats) {
                                           if (Lane() == 0) GroupTable(group)[first_chunk_ + k] = stats;
                                         });
  }
  // Tells the other blocks the statistics of a group: one entry, or one for each chunk where the row is folded flat.
  __device__ __forceinline__ void Publish(int group) {
    if (warp_ != 0) return;
    const Stats<C> mine = GroupTable(group)[Lane()];
    if (IsFlat()) {
      const int chunk = group * params_.block_chunks + Lane();
      if (Lane() < params_.block_chunks && chunk < params_.chunks) table_.Publish(row_, Entries(), chunk, mine);
    } else {
      const Stats<C> stats = CombineLanes(mine, scale_);
      if (Lane() == 0) table_.Publish(row_, Entries(), group, stats);
    }
  }
  __device__ __forceinline__ void LeavePlace() const {
    if (warp_ != 2) return;  // one of those that do not fold
    if (Lane() == 0) table_.LeavePlace(row_);
    __syncwarp();
  }
  // Those of the row, as soon as all blocks have told theirs: as RowFold folds them.
  __device__ __forceinline__ Stats<C> RowStats() const {
    const int thread = static_cast<int>(threadIdx.x);
    const int count = Entries();
    auto low = Chain<C>::From(NoStats<C>());
    auto high = low;
#pragma unroll 1
    for (int begin = 0; begin < count; begin += kFlatChunks) {
      if (begin > 0) __syncthreads();
      const int here = min(count - begin, kFlatChunks);
      table_.Await(row_, count, begin + thread, here - thread, tables_->entries + thread);
      __syncwarp();
      __syncthreads();
      if (warp_ == 0) FoldEntries(here, &low, &high);
    }
    if (warp_ == 0) {
      const Stats<C> stats = CombineLanes(CombineTwo(low.End(), high.End(), scale_), scale_);
      if (Lane() == 0) tables_->row = stats;
    }
    __syncthreads();
    return tables_->row;
  }
  __device__ __forceinline__ void FoldEntries(int count, Chain<C>* low, Chain<C>* high) const {
#pragma unroll 1
    for (int i = Lane(); i < count; i += 32) {
      if (IsFlat() || i % kAccumulators < 32) {
        low->Add(tables_->entries[i], scale_);
      } else {
        high->Add(tables_->entries[i], scale_);
      }
    }
  }
  __device__ __forceinline__ void Store(int group, const Normalizer<C>& normalize) const {
    const int column = Column(group);
    if (column >= params_.cols || Chunks() <= 0) return;
    SliceOf(group).Store(static_cast<In*>(params_.output) + row_ * params_.output_stride + column,
                         params_.cols - column, valid_ - column, column == 0, normalize);
  }

  const MatrixParams& params_;
  uint4* const shared_;
  WideTables<C>* const tables_;
  const Scale<C> scale_;
  GridTable<C> table_;
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  const int first_chunk_ = FirstChunk();  // of the warp's share of a group
  int row_ = 0;
  int valid_ = 0;
};

template <typename In>
__global__ void __launch_bounds__(kMatrixThreads, 3) WideMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ WideTables<C> tables;
  WideRows<In> rows(params, reinterpret_cast<uint4*>(dynamic), &tables);
  rows.Run();
  GridTable<C>::End(params);
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
