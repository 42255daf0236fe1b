#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/types.h"

namespace softmax::kernels::cpu {

// The k largest of a row's elements, which are offered in the order of their indices; of equal ones the first. Elements
// below the threshold, or not above it where it is strict, need not be offered.
//
// What is offered is kept in a place for several times k, and when that is full all but the k best are dropped: each
// element then costs a constant time, however the row is ordered.
template <typename T>
class TopK {
 public:
  struct Element {
    T value;
    std::int64_t index;
  };

  // At least k elements are not below `bound`.
  TopK(std::int32_t k, T bound) : k_(k), room_(std::max(4 * k, 64)), threshold_(bound) {}

  T threshold() const { return threshold_; }
  bool is_strict() const { return is_strict_; }

  void Offer(T value, std::int64_t index) {
    if (is_strict_ ? !(value > threshold_) : !(value >= threshold_)) return;
    kept_[count_++] = {value, index};
    if (count_ == room_) DropAllButK();
  }

  // Those found, the largest first; Count() of them.
  const Element* Sort() {
    std::partial_sort(kept_, kept_ + Count(), kept_ + count_, IsBefore);
    return kept_;
  }
  std::int32_t Count() const { return std::min(count_, k_); }

 private:
  static bool IsBefore(const Element& a, const Element& b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index);
  }
  void DropAllButK() {
    std::nth_element(kept_, kept_ + k_ - 1, kept_ + count_, IsBefore);
    count_ = k_;
    threshold_ = kept_[k_ - 1].value;
    is_strict_ = true;
  }

  const std::int32_t k_;
  const std::int32_t room_;
  std::int32_t count_ = 0;
  T threshold_;
  bool is_strict_ = false;
  Element kept_[4 * kMaxTopK];
};

}  // namespace softmax::kernels::cpu
