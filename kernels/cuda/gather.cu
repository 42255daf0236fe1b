#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/softmax.h"

namespace softmax::kernels {
namespace cuda {
namespace {

// A warp moves one tile of the destination at a time, all of it in flight at once: one trip to the host for each tile.
constexpr std::uint32_t kTileBytes = 2048;
constexpr int kWarps = 8;
constexpr int kLoads = kTileBytes / 16 / 32;
// Enough to fill the link; more would only wait in it.
constexpr std::uint32_t kMaxBlocks = 264;

struct Entry {
  const unsigned char* source;
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t first_tile;  // among all of the launch
};

// In the launch's parameters, so that no memory is read to learn where the pieces are: they end at 4 KiB.
template <std::uint32_t kEntries>
struct Table {
  Entry entries[kEntries];
  std::uint32_t count;
  std::uint32_t tiles;
};
constexpr std::uint32_t kFewEntries = 16;
constexpr std::uint32_t kManyEntries = 160;
static_assert(sizeof(Table<kManyEntries>) + sizeof(void*) <= 4096);

// Tiles lie on multiples of kTileBytes of the destination.
std::uint32_t TilesOf(std::uint64_t offset, std::uint32_t bytes) {
  return static_cast<std::uint32_t>((offset + bytes - 1) / kTileBytes - offset / kTileBytes + 1);
}

template <std::uint32_t kEntries>
__device__ const Entry& EntryOf(const Table<kEntries>& table, std::uint32_t tile) {
  std::uint32_t low = 0;
  std::uint32_t high = table.count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (table.entries[middle].first_tile <= tile ? low : high) = middle;
  }
  return table.entries[low];
}

// `bytes` bytes from `source`, as the aligned words that have any of them; the first is at buffer[source % 16] then.
__device__ void LoadTile(const unsigned char* source, std::uint32_t bytes, unsigned lane, unsigned char* buffer) {
  const auto shift = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source) & 15);
  const auto* const words = reinterpret_cast<const uint4*>(source - shift);
  const std::uint32_t count = (shift + bytes + 15) / 16;
  uint4 values[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const std::uint32_t index = lane + 32 * i;
    if (index < count) values[i] = __ldcs(words + index);
  }
  uint4 last{};
  const bool overhang = kLoads * 32 + lane < count;  // a whole tile that begins inside a word
  if (overhang) last = __ldcs(words + kLoads * 32 + lane);
  auto* const place = reinterpret_cast<uint4*>(buffer);
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const std::uint32_t index = lane + 32 * i;
    if (index < count) place[index] = values[i];
  }
  if (overhang) place[kLoads * 32 + lane] = last;
}

// The 16 bytes that begin at any byte of the buffer.
__device__ uint4 WordAt(const unsigned char* buffer, std::uint32_t at) {
  const auto* const parts = reinterpret_cast<const std::uint32_t*>(buffer + (at & ~3u));
  const std::uint32_t bits = (at & 3) * 8;
  return make_uint4(__funnelshift_r(parts[0], parts[1], bits), __funnelshift_r(parts[1], parts[2], bits),
                    __funnelshift_r(parts[2], parts[3], bits), __funnelshift_r(parts[3], parts[4], bits));
}

// `bytes` bytes from buffer[from] to `destination`: whole aligned words, and single bytes at the ends.
__device__ void StoreTile(const unsigned char* buffer, std::uint32_t from, std::uint32_t bytes, unsigned lane,
                          unsigned char* destination) {
  const auto misplaced = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(destination) & 15);
  const std::uint32_t head = min((16 - misplaced) & 15, bytes);
  const std::uint32_t whole = (bytes - head) / 16;
  for (std::uint32_t i = lane; i < whole; i += 32) {
    *reinterpret_cast<uint4*>(destination + head + 16 * i) = WordAt(buffer, from + head + 16 * i);
  }
  const std::uint32_t tail = head + 16 * whole;
  if (lane < head) destination[lane] = buffer[from + lane];
  if (lane < bytes - tail) destination[tail + lane] = buffer[from + tail + lane];
}

template <std::uint32_t kEntries>
__global__ void __launch_bounds__(kWarps * 32)
    GatherKernel(const __grid_constant__ Table<kEntries> table, unsigned char* destination) {
  // One word for a tile that begins inside one, one that WordAt may touch behind it.
  __shared__ __align__(16) unsigned char buffers[kWarps][kTileBytes + 32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  for (std::uint32_t tile = blockIdx.x * kWarps + warp; tile < table.tiles; tile += gridDim.x * kWarps) {
    const Entry& entry = EntryOf(table, tile);
    const std::uint64_t tile_begin = (entry.offset / kTileBytes + (tile - entry.first_tile)) * kTileBytes;
    const std::uint64_t begin = max(tile_begin, entry.offset);
    const std::uint64_t end = min(tile_begin + kTileBytes, entry.offset + entry.bytes);
    const unsigned char* const source = entry.source + (begin - entry.offset);
    const auto bytes = static_cast<std::uint32_t>(end - begin);
    LoadTile(source, bytes, lane, buffers[warp]);
    __syncwarp();
    StoreTile(buffers[warp], static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source) & 15), bytes, lane,
              destination + begin);
    __syncwarp();
  }
}

template <std::uint32_t kEntries>
cudaError_t LaunchTable(const Table<kEntries>& table, void* destination, cudaStream_t stream) {
  const std::uint32_t blocks = std::min(kMaxBlocks, (table.tiles + kWarps - 1) / kWarps);
  auto* to = static_cast<unsigned char*>(destination);
  void* args[] = {const_cast<Table<kEntries>*>(&table), &to};
  return Launch(reinterpret_cast<const void*>(&GatherKernel<kEntries>), Grid{blocks, kWarps * 32}, args, stream);
}

// Launches what the table has, and empties it.
cudaError_t Flush(Table<kManyEntries>* table, void* destination, cudaStream_t stream) {
  if (table->tiles == 0) return cudaSuccess;
  cudaError_t error;
  if (table->count <= kFewEntries) {
    Table<kFewEntries> few;
    std::copy_n(table->entries, table->count, few.entries);
    few.count = table->count;
    few.tiles = table->tiles;
    error = LaunchTable(few, destination, stream);
  } else {
    error = LaunchTable(*table, destination, stream);
  }
  table->count = table->tiles = 0;
  return error;
}

}  // namespace

cudaError_t LoadGatherKernels() {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, GatherKernel<kFewEntries>);
  return error != cudaSuccess ? error : cudaFuncGetAttributes(&attributes, GatherKernel<kManyEntries>);
}

}  // namespace cuda

cudaError_t LaunchGather(const GatherPiece* pieces, std::int64_t count, void* destination, cudaStream_t stream) {
  // So that offsets within a piece and a launch's tiles fit into 32 bits.
  constexpr std::uint64_t kEntryBytes = 1u << 30;
  if (count < 0 || (count > 0 && (pieces == nullptr || destination == nullptr))) return cudaErrorInvalidValue;
  for (std::int64_t i = 0; i < count; ++i) {
    if (pieces[i].source == nullptr && pieces[i].bytes > 0) return cudaErrorInvalidValue;
  }
  cuda::Table<cuda::kManyEntries> table;
  table.count = table.tiles = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::uint64_t done = 0; done < pieces[i].bytes; done += kEntryBytes) {
      if (table.count == cuda::kManyEntries || table.tiles >= 1u << 30) {
        if (const cudaError_t error = cuda::Flush(&table, destination, stream); error != cudaSuccess) return error;
      }
      cuda::Entry& entry = table.entries[table.count++];
      entry.source = static_cast<const unsigned char*>(pieces[i].source) + done;
      entry.offset = pieces[i].offset + done;
      entry.bytes = static_cast<std::uint32_t>(std::min(kEntryBytes, pieces[i].bytes - done));
      entry.first_tile = table.tiles;
      table.tiles += cuda::TilesOf(entry.offset, entry.bytes);
    }
  }
  return cuda::Flush(&table, destination, stream);
}

}  // namespace softmax::kernels
