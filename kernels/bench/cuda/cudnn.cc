#include "kernels/bench/cuda/cudnn.h"

#include <dlfcn.h>

#include <memory>
#include <stdexcept>

namespace softmax::kernels::bench {
namespace {

// The part of cuDNN's C interface that is used, as in its documentation (the same in versions 8 and 9). The library is
// not needed to build this program.
using Handle = void*;
using Descriptor = void*;
using Status = int;
constexpr Status kSuccess = 0;
constexpr int kTensorNchw = 0;
constexpr int kAccurate = 1;
constexpr int kLog = 2;
constexpr int kModeInstance = 0;

int TypeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat64:
      return 1;
    case DataType::kFloat16:
      return 2;
    case DataType::kBFloat16:
      return 9;
    case DataType::kFloat32:
      break;
  }
  return 0;
}

class Library {
 public:
  explicit Library(const std::string& path) {
    void* library = nullptr;
    if (!path.empty()) {
      library = dlopen(path.c_str(), RTLD_NOW);
    } else {
      for (const char* name : {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"}) {
        if (library == nullptr) library = dlopen(name, RTLD_NOW);
      }
    }
    if (library == nullptr) throw std::runtime_error(dlerror());
    Find(library, "cudnnCreate", &create);
    Find(library, "cudnnSetStream", &set_stream);
    Find(library, "cudnnCreateTensorDescriptor", &create_descriptor);
    Find(library, "cudnnSetTensor4dDescriptor", &set_descriptor);
    Find(library, "cudnnSoftmaxForward", &softmax_forward);
    if (create(&handle) != kSuccess) throw std::runtime_error("cudnnCreate failed");
    if (create_descriptor(&descriptor) != kSuccess) throw std::runtime_error("cudnnCreateTensorDescriptor failed");
  }

  Status (*create)(Handle*) = nullptr;
  Status (*set_stream)(Handle, cudaStream_t) = nullptr;
  Status (*create_descriptor)(Descriptor*) = nullptr;
  Status (*set_descriptor)(Descriptor, int format, int type, int n, int c, int h, int w) = nullptr;
  Status (*softmax_forward)(Handle, int algorithm, int mode, const void* alpha, Descriptor, const void* input,
                            const void* beta, Descriptor, void* output) = nullptr;
  Handle handle = nullptr;
  Descriptor descriptor = nullptr;

 private:
  template <typename Function>
  static void Find(void* library, const char* name, Function* function) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) throw std::runtime_error(std::string("it has no ") + name);
    *function = reinterpret_cast<Function>(symbol);
  }
};

cudaError_t Forward(const Library& cudnn, const Slot& slot, cudaStream_t stream) {
  const Segment& s = slot.segments.front();
  const float one = 1;
  const float zero = 0;
  const double one_double = 1;
  const double zero_double = 0;
  const bool is_double = slot.dtype == DataType::kFloat64;
  const void* const alpha = is_double ? static_cast<const void*>(&one_double) : &one;
  const void* const beta = is_double ? static_cast<const void*>(&zero_double) : &zero;
  const int algorithm = s.operation == Operation::kLogSoftmax ? kLog : kAccurate;
  const bool done = cudnn.set_stream(cudnn.handle, stream) == kSuccess &&
                    cudnn.set_descriptor(cudnn.descriptor, kTensorNchw, TypeOf(slot.dtype), static_cast<int>(s.outer),
                                         static_cast<int>(s.cols), 1, 1) == kSuccess &&
                    cudnn.softmax_forward(cudnn.handle, algorithm, kModeInstance, alpha, cudnn.descriptor, s.input,
                                          beta, cudnn.descriptor, s.output) == kSuccess;
  if (done) return cudaSuccess;
  const cudaError_t error = cudaGetLastError();
  return error != cudaSuccess ? error : cudaErrorUnknown;
}

}  // namespace

Provider MakeCudnn(const std::string& path, std::string* reason) {
  try {
    const auto library = std::make_shared<Library>(path);
    return {kCudnn,
            {[library](const Slot& slot, cudaStream_t stream) { return Forward(*library, slot, stream); }},
            [](const Point& point) { return point.plain() && point.rows <= 0x7fffffff && point.cols <= 0x7fffffff; },
            Strictness::kRough};
  } catch (const std::exception& failure) {
    *reason = failure.what();
    return {kCudnn, {}, [](const Point&) { return false; }, Strictness::kRough};
  }
}

}  // namespace softmax::kernels::bench
