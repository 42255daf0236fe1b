#include "kernels/cpu/softmax_cpu.h"
#include "lab/bench/sync_softmax.h"

namespace softmax::bench {
namespace {

class CpuSoftmax final : public SyncSoftmax {
 public:
  const char* name() const override { return "cpu"; }
  std::string Run(const std::string& input, std::int64_t rows, std::int64_t columns, std::string* output) override {
    output->resize(input.size());
    kernels::Segment segment;
    segment.input = input.data();
    segment.output = output->data();
    segment.outer = rows;
    segment.cols = columns;
    segment.input_stride = segment.output_stride = columns;
    kernels::cpu::Softmax(kernels::DataType::kFloat32, kernels::DataType::kFloat32, segment, 0, rows);
    return "";
  }
};

}  // namespace

std::unique_ptr<SyncSoftmax> MakeCpuSoftmax() { return std::make_unique<CpuSoftmax>(); }

#if !SOFTMAX_WITH_CUDA
std::unique_ptr<SyncSoftmax> MakeCudaSoftmax() { return nullptr; }
#endif

}  // namespace softmax::bench
