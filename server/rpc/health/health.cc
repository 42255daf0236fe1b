#include "server/rpc/health/health.h"

namespace softmax::server {

void Health::Set(bool* field, bool value) {
  std::vector<std::function<void()>> listeners;
  {
    MutexLock lock(mu_);
    if (*field == value) return;
    *field = value;
    listeners = listeners_;
  }
  for (const std::function<void()>& listener : listeners) listener();
}

Health::Status Health::Check(const std::string& service) const {
  MutexLock lock(mu_);
  const auto status = [](bool serving) { return serving ? Status::kServing : Status::kNotServing; };
  if (service.empty() || service == "readiness") return status(ready_ && live_);
  if (service == "softmax.v1.SoftmaxService" || service == "inference.GRPCInferenceService") {
    return status(ready_ && live_ && !unsafe_);
  }
  return service == "liveness" ? status(live_) : Status::kUnknownService;
}

void Health::AddListener(std::function<void()> listener) {
  MutexLock lock(mu_);
  listeners_.push_back(std::move(listener));
}

}  // namespace softmax::server
