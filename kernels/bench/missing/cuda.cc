#include "kernels/bench/cuda/device_runner.h"
#include "kernels/bench/cuda/host_runner.h"

namespace softmax::kernels::bench {

std::unique_ptr<Runner> MakeDeviceRunner(const RunSettings&, std::string* reason) {
  *reason = "this program was built without CUDA";
  return nullptr;
}

std::unique_ptr<Runner> MakeHostRunner(const RunSettings& settings, std::string* reason) {
  return MakeDeviceRunner(settings, reason);
}

}  // namespace softmax::kernels::bench
