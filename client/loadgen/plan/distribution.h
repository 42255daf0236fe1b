#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace softmax::client {

// A distribution of one dimension of a shape, from which a mix of requests is drawn. Immutable.
class Distribution {
 public:
  // "N" or "fixed:N"; "uniform:LO:HI"; "loguniform:LO:HI" (every octave equally likely); "zipf:EXPONENT:LO:HI" (the
  // k-th value from LO on has the weight k^-EXPONENT). Bounds are included, at least 1 and at most 2^31.
  static absl::StatusOr<Distribution> Parse(absl::string_view text);

  std::int64_t Draw(std::mt19937_64& random) const;

  std::int64_t max() const { return high_; }
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kUniform, kLogUniform, kZipf };

  Distribution() = default;

  Kind kind_ = Kind::kUniform;
  std::int64_t low_ = 1;
  std::int64_t high_ = 1;
  std::vector<double> cumulative_;  // zipf only
  std::string text_;
};

}  // namespace softmax::client
