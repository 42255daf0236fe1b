#pragma once

#include "kernels/cuda/blocks/again.cuh"
#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/core/quotient.cuh"
#include "kernels/cuda/large_rows/bulk.cuh"

// Rows of more chunks than one block takes well: the blocks of a cluster take a part each, copied there and back in
// bulk by the warps that work on it. Parts of about 32 KB, as many as make 130 to 200 KB on a multiprocessor: their
// phases overlap, and a launch begins and ends with little.
namespace softmax::kernels::cuda {

// A warp's share of a block's part of a row.
struct PartsPlace {
  int warp;
  int before;  // chunks of the row before the part
  int chunks;  // of the part
  int first;   // of the part's chunks, the warp's
  int last;
  std::int64_t row;

  __device__ __forceinline__ explicit PartsPlace(const MatrixParams& params) : warp(ThreadAgain() / 32) {
    const int part = RankAgain();
    before = SmallQuotient(part * params.chunks, params.cluster_blocks);
    chunks = SmallQuotient((part + 1) * params.chunks, params.cluster_blocks) - before;
    first = SmallQuotient(warp * chunks, params.warps);
    last = SmallQuotient((warp + 1) * chunks, params.warps);
    row = BlockAgain() / static_cast<std::uint32_t>(params.cluster_blocks);
  }
};

template <typename In, bool kSkew, bool kMixed>
__global__ void __launch_bounds__(32 * PartWarps(sizeof(In)), kSkew ? 5 : 4)
    PartsMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  constexpr bool kApart = HasApart(sizeof(In), kSkew);
  using Part = BulkPart<In, kSkew, kApart>;
  constexpr int kChunk = Element<In>::kChunk;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ typename ChunkTable<C>::Control control;
  __shared__ std::uint64_t barriers[PartWarps(sizeof(In))];
  __shared__ Stats<C> mine[PartChunks(sizeof(In), kMixed)];  // of the part's chunks
  __shared__ uint4 apart[kApart ? PartChunks(sizeof(In), kMixed) * kChunkSlots : 1];
  static_assert(sizeof(control) + sizeof(barriers) + sizeof(mine) + sizeof(apart) <= PartTableBytes(sizeof(In), kSkew),
                "what the plan counts with");
  const Scale<C> scale = ScaleOf<C>(params);
  // The statistics of the row's chunks come after the part.
  const ChunkTable<C> table(reinterpret_cast<Stats<C>*>(dynamic + params.slice_bytes), &control,
                            Team{params.cluster_blocks});
  if (threadIdx.x % 32 == 0) StartBarrier(&barriers[ThreadAgain() / 32]);
  table.Arrive(params.chunks);
  AskAhead<In>(params);
  BeginAccess(params);
  {
    const PartsPlace place(params);
    const int column = place.before * kChunk;
    const int columns = place.chunks * kChunk;
    const auto valid = static_cast<int>(ValidLength(params, place.row));
    const Part part(static_cast<const In*>(params.input) + place.row * params.input_stride + column, columns,
                    valid - column, column == 0, reinterpret_cast<uint4*>(dynamic), apart);
    const Around around = AroundOf<In>(params, place.row, column, min(columns, valid - column));
    const bool is_last = place.last == place.chunks;
    part.Start(around, place.first * Part::kChunkVectors,
               place.last * Part::kChunkVectors + (is_last ? Part::kBehind : 0), &barriers[place.warp]);
    table.Begin();
    __syncwarp();
    WaitForBulkLoad(&barriers[place.warp]);
    // The vector behind a warp's chunks is the next one's.
    if (kSkew && !is_last) WaitForBulkLoad(&barriers[place.warp + 1]);
    // It may end what is read, or be filled where a row is cut, by the next warp's threads.
    if (params.lengths != nullptr || !around.after) __syncthreads();
    const int slots = part.slots();
    if (slots > place.first * kChunkSlots && slots <= place.last * kChunkSlots) part.Fill(slots);
    __syncwarp();
    part.SetApart(place.first * kChunkSlots, place.last * kChunkSlots);
    part.Reduce(place.first, place.last, params.log && column == 0 ? valid : kManyColumns, scale,
                [&](int k, const Stats<C>& stats) { mine[k] = stats; });
  }
  __syncwarp();
  const PartsPlace place(params);
  for (int k = place.first; k < place.last; ++k) table.Publish(place.before + k, mine[k]);
  const Stats<C> stats = table.Fold(0, params.chunks, scale);
  const int column = place.before * kChunk;
  const int columns = place.chunks * kChunk;
  const auto valid = static_cast<int>(ValidLength(params, place.row));
  const Part part(static_cast<const In*>(params.input) + place.row * params.input_stride + column, columns,
                  valid - column, column == 0, reinterpret_cast<uint4*>(dynamic));
  const Normalizer<C> normalize(scale, stats, params.log, valid == 0);
  const auto left = static_cast<int>(params.cols) - column;
  const bool ends_row = place.last == place.chunks && left <= columns;
  const int first = place.first * Part::kChunkVectors;
  const int last = ends_row ? part.Vectors(left) : place.last * Part::kChunkVectors;
  ForOutput<In, kMixed>(params, place.row, [&](auto* output) {
    if constexpr (kMixed) {
      part.StoreMixed(output + column, first, last, min(columns, left), valid - column, column == 0, normalize);
    } else {
      if (valid == params.cols) {
        part.Replace(first, last, normalize);
      } else {
        part.ReplaceMasked(first, last, valid - column, normalize);
      }
      part.Store(output + column, first, last, min(columns, left), column == 0);
      EndBulkStores(params.completion);
    }
  });
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
