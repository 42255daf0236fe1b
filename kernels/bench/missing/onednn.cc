#include "kernels/bench/cpu/onednn/onednn.h"

namespace softmax::kernels::bench {

bool OneDnn::Available() { return false; }

std::unique_ptr<OneDnn> OneDnn::Create(const Point&, int, std::string* reason) {
  *reason = "built without oneDNN";
  return nullptr;
}

}  // namespace softmax::kernels::bench
