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

void Health::SetReady(bool ready) { Set(&ready_, ready); }
void Health::SetLive(bool live) { Set(&live_, live); }
void Health::SetUnsafeTesting(bool unsafe) { Set(&unsafe_, unsafe); }

Health::Status Health::Check(const std::string& service) const {
  MutexLock lock(mu_);
  bool serving = false;
  if (service.empty() || service == "readiness") {
    serving = ready_ && live_;
  } else if (service == "softmax.v1.SoftmaxService" || service == "inference.GRPCInferenceService") {
    serving = ready_ && live_ && !unsafe_;
  } else if (service == "liveness") {
    serving = live_;
  } else {
    return Status::kUnknownService;
  }
  return serving ? Status::kServing : Status::kNotServing;
}

void Health::AddListener(std::function<void()> listener) {
  MutexLock lock(mu_);
  listeners_.push_back(std::move(listener));
}

}  // namespace softmax::server
