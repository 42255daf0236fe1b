#include "client/loadgen/plan/search.h"

#include <algorithm>
#include <cmath>

namespace softmax::client {

SearchResult FindHighestRate(double low, double high, double precision,
                             const std::function<std::optional<Probe>(double)>& probe) {
  SearchResult result;
  double failed = 0;  // the lowest rate that failed; 0: none yet
  // Tries a rate. False: the search is to stop.
  const auto attempt = [&](double rate) {
    const std::optional<Probe> found = probe(rate);
    if (!found) {
      result.stopped = true;
      return false;
    }
    result.steps.push_back({*found, rate});
    if (found->kept) {
      result.rate_per_s = rate;
    } else {
      failed = rate;
      result.generator_limited = found->generator_limited;
    }
    return true;
  };
  for (double rate = low; failed == 0; rate = std::min(rate * 2, high)) {
    if (!attempt(rate)) return result;
    if (failed == 0 && rate >= high) {
      result.at_upper_bound = true;
      return result;
    }
  }
  while (result.rate_per_s && failed > *result.rate_per_s * (1 + precision)) {
    // The geometric mean: precision is relative.
    if (!attempt(std::sqrt(*result.rate_per_s * failed))) return result;
  }
  return result;
}

}  // namespace softmax::client
