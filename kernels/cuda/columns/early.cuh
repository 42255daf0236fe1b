#pragma once

#include "kernels/cuda/columns/matrix.cuh"

// Where a block has one part, of whole vectors, threads look for the maxima of the vectors that they copy themselves,
// as these arrive: no barrier is needed for that, and little is left to do when the last have come.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, ColumnMode kMode>
class ColumnMatrix<In, kUnit, kMode>::EarlyMaxima {
 public:
  __device__ __forceinline__ explicit EarlyMaxima(const ColumnMatrix& matrix) : matrix_(matrix) {
    const ColumnParams& params = matrix.params_;
    vectors_ = static_cast<int>(params.line_vectors.value);
    side_ = Quotient(matrix.threads_, params.line_vectors);
    first_ = Quotient(static_cast<int>(threadIdx.x), params.line_vectors);
    vector_ = static_cast<int>(threadIdx.x) - first_ * vectors_;
    columns_ = vector_ * kUnit < matrix.width_ ? matrix.Columns(0) : 0;
    group_ = ((matrix.Columns(0) + side_ - 1) / side_ + kGroups - 1) / kGroups * side_;
    shared_ = matrix.tile_ + first_ * params.pitch + vector_ * kVectorBytes;
  }

  __device__ __forceinline__ void StartCopies() const {
    const std::int64_t pitch = matrix_.segment_.inner * kSize;
    std::uintptr_t memory = matrix_.input_ +
                            static_cast<std::uintptr_t>(matrix_.Offset(0, 0) * kSize + first_ * pitch) +
                            static_cast<unsigned>(vector_ * kVectorBytes);
    unsigned char* shared = shared_;
    const auto memory_step = static_cast<std::uintptr_t>(side_ * pitch);
    const int shared_step = side_ * matrix_.params_.pitch;
#pragma unroll 1
    for (int begin = first_; begin < first_ + kGroups * group_; begin += group_) {
      ForCopies(begin, min(columns_, begin + group_), side_, [&] {
        CopyAsync(shared, memory);
        memory += memory_step;
        shared += shared_step;
      });
      CommitCopies();
    }
  }

  // Leaves the maxima of each warp.
  __device__ __forceinline__ void Find() const {
    UnitMaximum<In, kUnit> maximum;
    const unsigned char* p = shared_;
    const int step = side_ * matrix_.params_.pitch;
    const auto add = [&](int group) {
      const int begin = first_ + group * group_;
#pragma unroll 4
      for (int k = begin; k < min(columns_, begin + group_); k += side_) {
        maximum.Add(RawUnit::Load(p));
        p += step;
      }
    };
    WaitCopiesButLast<3>();
    add(0);
    WaitCopiesButLast<2>();
    add(1);
    WaitCopiesButLast<1>();
    add(2);
    WaitCopiesButLast<0>();
    add(3);
    for (int offset = 16; offset >= vectors_; offset >>= 1) maximum.Exchange(offset);
    if (matrix_.lane_ >= vectors_) return;
    C max[kUnit];
    maximum.Get(max);
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      matrix_.task_maxima_[matrix_.warp_ * matrix_.params_.strip + vector_ * kUnit + e] = max[e];
    }
  }

 private:
  static constexpr int kGroups = 4;  // of copies, as they are waited for

  const ColumnMatrix& matrix_;
  int vectors_;  // side by side; a power of two
  int side_;     // columns side by side
  int first_;    // column
  int vector_;
  int columns_;
  int group_;  // columns of a group of copies
  unsigned char* shared_;
};

}  // namespace softmax::kernels::cuda
