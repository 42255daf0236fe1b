#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/decode.h"

namespace softmax::testing {

// A message cut into slices, each in an allocation of exactly its size, so that AddressSanitizer
// sees a read past any of them.
class SlicedMessage {
 public:
  SlicedMessage(std::string_view bytes, const std::vector<std::size_t>& sizes) {
    for (const std::size_t size : sizes) {
      Add(bytes.substr(0, size));
      bytes.remove_prefix(std::min(size, bytes.size()));
    }
    if (!bytes.empty()) Add(bytes);
  }
  explicit SlicedMessage(std::string_view bytes) : SlicedMessage(bytes, {}) {}

  // At random places, empty slices included.
  template <typename Random>
  static SlicedMessage Cut(std::string_view bytes, std::size_t pieces, Random& random) {
    std::vector<std::size_t> cuts(pieces);
    for (std::size_t& cut : cuts) cut = random() % (bytes.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = cuts.size(); i-- > 1;) cuts[i] -= cuts[i - 1];
    return SlicedMessage(bytes, cuts);
  }

  Slices slices() const { return slices_; }

 private:
  void Add(std::string_view piece) {
    auto& copy = storage_.emplace_back(std::make_unique<std::uint8_t[]>(piece.size()));
    if (!piece.empty()) std::memcpy(copy.get(), piece.data(), piece.size());
    slices_.emplace_back(copy.get(), piece.size());
  }

  std::vector<std::unique_ptr<std::uint8_t[]>> storage_;
  std::vector<std::span<const std::uint8_t>> slices_;
};

inline std::string Payload(Slices slices, const DecodedRequest& request) {
  std::string bytes(request.spec.received_bytes(), '\0');
  CopyFromSlices(slices, request.payload_offset, bytes.size(), bytes.data());
  return bytes;
}

// Empty when the two are equal, otherwise what differs.
inline std::string Difference(const DecodedRequest& a, const DecodedRequest& b) {
  if (a.status != b.status) return a.status.ToString() + " against " + b.status.ToString();
  if (a.has_id != b.has_id || a.id != b.id) return "id";
  if (!a.status.ok()) return "";
  if (a.timeout_us != b.timeout_us) return "timeout_us";
  if (a.rank != b.rank || !std::equal(a.shape, a.shape + 8, b.shape)) return "shape";
  if (a.payload_offset != b.payload_offset) return "payload_offset";
  if (a.lengths != b.lengths) return "lengths";
  if (a.indices != b.indices) return "indices";
  const TensorSpec& x = a.spec;
  const TensorSpec& y = b.spec;
  if (x.input_type != y.input_type || x.output_type != y.output_type) return "types";
  if (x.operation != y.operation || x.scale != y.scale) return "operation or scale";
  if (x.outer != y.outer || x.cols != y.cols || x.inner != y.inner) return "geometry";
  const SummarySpec& s = x.summary;
  const SummarySpec& t = y.summary;
  if (s.top_k != t.top_k || s.at != t.at || s.log_sum_exp != t.log_sum_exp || s.entropy != t.entropy ||
      s.partial != t.partial || s.full != t.full) {
    return "summary";
  }
  const auto differ = [](bool a_has, const WirePlace& a_place, bool b_has, const WirePlace& b_place) {
    return a_has != b_has || a_place.region != b_place.region || a_place.offset != b_place.offset;
  };
  if (differ(x.input_in_region, a.input_place, y.input_in_region, b.input_place) ||
      differ(x.output_in_region, a.output_place, y.output_in_region, b.output_place) ||
      differ(x.summary_in_region, a.summary_place, y.summary_in_region, b.summary_place)) {
    return "places";
  }
  return x.has_lengths == y.has_lengths ? "" : "has_lengths";
}

}  // namespace softmax::testing
