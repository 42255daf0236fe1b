#include "kernels/bench/cpu/onednn/onednn.h"

#include <omp.h>

#include <dnnl.hpp>

#include "kernels/bench/cpu/pin.h"
#include "kernels/operations.h"

namespace softmax::kernels::bench {
namespace {

dnnl::memory::data_type TypeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return dnnl::memory::data_type::f16;
    case DataType::kBFloat16:
      return dnnl::memory::data_type::bf16;
    default:
      return dnnl::memory::data_type::f32;
  }
}

class Primitive final : public OneDnn {
 public:
  Primitive(const Point& point, int threads)
      : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(threads_);  // the library plans for the number that is set when a primitive is made
#pragma omp parallel num_threads(threads_)
    PinToCore(omp_get_thread_num());
    const dnnl::memory::desc layout({point.rows, point.cols}, TypeOf(point.dtype), dnnl::memory::format_tag::ab);
    primitive_ = Make(point.operation, layout);
    input_ = dnnl::memory(layout, engine_, nullptr);
    output_ = dnnl::memory(layout, engine_, nullptr);
  }

  void Run(const void* input, void* output) override {
    omp_set_num_threads(threads_);
    input_.set_data_handle(const_cast<void*>(input));
    output_.set_data_handle(output);
    primitive_.execute(stream_, {{DNNL_ARG_SRC, input_}, {DNNL_ARG_DST, output_}});
    stream_.wait();
  }

 private:
  dnnl::primitive Make(Operation operation, const dnnl::memory::desc& layout) const {
    const auto kind = dnnl::prop_kind::forward_inference;
    const bool log = TraitsOf(operation).is_log;
#if DNNL_VERSION_MAJOR >= 3
    const auto algorithm = log ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
    return dnnl::softmax_forward({engine_, kind, algorithm, layout, layout, 1});
#else
    if (log) return dnnl::logsoftmax_forward({dnnl::logsoftmax_forward::desc(kind, layout, 1), engine_});
    return dnnl::softmax_forward({dnnl::softmax_forward::desc(kind, layout, 1), engine_});
#endif
  }

  const int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  dnnl::memory input_;
  dnnl::memory output_;
};

}  // namespace

bool OneDnn::Available() { return true; }

std::unique_ptr<OneDnn> OneDnn::Create(const Point& point, int threads, std::string* reason) {
  try {
    return std::make_unique<Primitive>(point, threads);
  } catch (const dnnl::error& error) {
    *reason = error.what();
    return nullptr;
  }
}

}  // namespace softmax::kernels::bench
