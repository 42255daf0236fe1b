#include "client/loadgen/plan/distribution.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>

namespace softmax::client {
namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;
constexpr std::int64_t kMaxZipfValues = 1 << 20;

// In [0, 1), with the generator's upper 53 bits: the same on every machine.
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

bool ParseDimension(absl::string_view text, std::int64_t* out) {
  return absl::SimpleAtoi(text, out) && *out >= 1 && *out <= kMaxDimension;
}

}  // namespace

absl::StatusOr<Distribution> Distribution::Parse(absl::string_view text) {
  const auto wrong = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(text, ": ", why)); };
  const std::vector<absl::string_view> words = absl::StrSplit(text, ':');
  Distribution made;
  made.text_ = std::string(text);
  const bool bare = words.size() == 1;
  if (bare || (words[0] == "fixed" && words.size() == 2)) {
    if (!ParseDimension(words.back(), &made.low_)) return wrong("expected a dimension from 1 to 2147483648");
    made.high_ = made.low_;
    return made;
  }
  double exponent = 0;
  if (words[0] == "uniform" && words.size() == 3) {
    made.kind_ = Kind::kUniform;
  } else if (words[0] == "loguniform" && words.size() == 3) {
    made.kind_ = Kind::kLogUniform;
  } else if (words[0] == "zipf" && words.size() == 4) {
    made.kind_ = Kind::kZipf;
    if (!absl::SimpleAtod(words[1], &exponent) || !(exponent > 0 && exponent <= 10)) {
      return wrong("the exponent of zipf must be above 0 and at most 10");
    }
  } else {
    return wrong("expected N, fixed:N, uniform:LO:HI, loguniform:LO:HI or zipf:EXPONENT:LO:HI");
  }
  const std::size_t at = words.size() - 2;
  if (!ParseDimension(words[at], &made.low_) || !ParseDimension(words[at + 1], &made.high_) || made.low_ > made.high_) {
    return wrong("the bounds must be from 1 to 2147483648, the lower one first");
  }
  if (made.kind_ != Kind::kZipf) return made;
  const std::int64_t values = made.high_ - made.low_ + 1;
  if (values > kMaxZipfValues) return wrong(absl::StrCat("zipf takes at most ", kMaxZipfValues, " values"));
  double sum = 0;
  for (std::int64_t k = 1; k <= values; ++k) {
    sum += std::pow(static_cast<double>(k), -exponent);
    made.cumulative_.push_back(sum);
  }
  return made;
}

std::int64_t Distribution::Draw(std::mt19937_64& random) const {
  const double u = Uniform(random);
  const auto low = static_cast<double>(low_);
  const auto high = static_cast<double>(high_);
  std::int64_t value = low_;
  switch (kind_) {
    case Kind::kUniform:
      value += static_cast<std::int64_t>(u * (high - low + 1));
      break;
    case Kind::kLogUniform:
      // Over [low, high + 1), so that the last value has its share too.
      value = static_cast<std::int64_t>(std::exp(std::log(low) + u * (std::log(high + 1) - std::log(low))));
      break;
    case Kind::kZipf:
      value += std::upper_bound(cumulative_.begin(), cumulative_.end(), u * cumulative_.back()) - cumulative_.begin();
      break;
  }
  return std::clamp(value, low_, high_);
}

}  // namespace softmax::client
