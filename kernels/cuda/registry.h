#pragma once

#include <cstdint>
#include <vector>

#include "kernels/types.h"

// All kernels: by room, the type of the input, and what else they are compiled for.
namespace softmax::kernels::cuda {

enum class Room : std::uint8_t {
  kNone,       // no kernel takes the segment
  kSmall,      // a group of lanes takes a row or several; by vectors a lane
  kSingle,     // the same, a row a group
  kSplit,      // small rows, a block for each
  kTile,       // dense rows in shared memory, a thread a row or several for one; by TileSizeOf()
  kChunk,      // many rows of whole vectors, a warp for each chunk, in a block,
  kCluster,    // or in a cluster
  kFew,        // so few rows that many blocks share each, a warp for each chunk; size 1: a grid, not a cluster
  kLarge,      // the warps of a block or cluster share a row, in registers
  kSlice,      // the same, through shared memory
  kBulk,       // a row for each block, through shared memory by bulk copies
  kParts,      // a part of a row for each block of a cluster, likewise
  kWide,       // parts of rows that blocks take in turn, launched cooperatively
  kColumns,    // another axis, a few threads a unit; size 1: chunk after chunk
  kColumnFew,  // another axis, few columns, a thread a unit; by kFewColumns
  kBatch,      // several segments
  kGeneral,    // what none of these takes
  kSummary,    // of rows the largest elements and normalizers alone; by SummaryStep
};
constexpr int kFewGrid = 1;  // the size of kFew that takes a grid and no cluster
constexpr int kRooms = 18;
constexpr int kRoomSizes = 16;  // of a room's kernels, at most

// What a kernel is for, beside room, type and size.
enum Form : std::uint8_t {
  kSkew = 1,   // rows may miss the 16-byte boundaries, input and output alike; over another axis: single elements
  kLog = 2,    // log-softmax
  kMixed = 4,  // the results are of another type
};
constexpr int kForms = 8;
constexpr int FormOf(bool skew, bool log, bool mixed) {
  return (skew ? kSkew : 0) | (log ? kLog : 0) | (mixed ? kMixed : 0);
}

struct Kernel {
  Room room;
  int size;
  int form;
  int any;  // of the form's bits, those that the kernel looks at when it runs: it serves either value
  const void* address;
};

// The kernel, or nullptr where none is compiled for that.
const void* KernelOf(DataType type, Room room, int size, int form);

// All of a type, each once.
const std::vector<Kernel>& KernelsOf(DataType type);

}  // namespace softmax::kernels::cuda
