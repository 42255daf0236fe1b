#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace softmax::server {

// The serving status of every service name a prober may ask for. Thread-safe.
//
//   ""                            as readiness
//   "readiness"                   SERVING from the self-test's end to the begin of a drain
//   "softmax.v1.SoftmaxService"   as readiness, but never SERVING while test switches falsify answers; and
//                                 "inference.GRPCInferenceService", which is the same service by another name
//   "liveness"                    SERVING until no lane can work again: through overload and drain
class Health {
 public:
  enum class Status { kServing, kNotServing, kUnknownService };

  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mu_) { Set(&ready_, ready); }
  void SetLive(bool live) ABSL_LOCKS_EXCLUDED(mu_) { Set(&live_, live); }
  void SetUnsafeTesting(bool unsafe) ABSL_LOCKS_EXCLUDED(mu_) { Set(&unsafe_, unsafe); }
  Status Check(const std::string& service) const ABSL_LOCKS_EXCLUDED(mu_);
  bool ready() const { return Check("readiness") == Status::kServing; }

  // `listener` runs after every change, on the changing thread, without a lock held.
  void AddListener(std::function<void()> listener) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Set(bool* field, bool value) ABSL_LOCKS_EXCLUDED(mu_);

  mutable Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool live_ ABSL_GUARDED_BY(mu_) = true;
  bool unsafe_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::function<void()>> listeners_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::server
