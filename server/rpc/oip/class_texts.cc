#include "server/rpc/oip/class_texts.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "common/wire/oip_decode.h"
#include "kernels/reference.h"

namespace softmax::server {
namespace {

constexpr int kDecimals = 6;

char* PutValue(double value, char* at, char* end) {
  const bool is_short = std::isfinite(value) && std::fabs(value) >= kFirstShortClass;
  return is_short ? std::to_chars(at, end, value, std::chars_format::scientific).ptr
                  : std::to_chars(at, end, value, std::chars_format::fixed, kDecimals).ptr;
}

}  // namespace

std::int64_t ClassCount(const TensorSpec& spec) { return spec.elements() == 0 ? 0 : spec.rows() * spec.summary.top_k; }

void AppendClassTexts(const TensorSpec& spec, const std::byte* summary, std::int64_t begin, std::int64_t end,
                      std::string* out) {
  const SummaryLayout layout = spec.summary_layout();
  const std::byte* const values = summary + layout.offset[SummaryLayout::kTopValues];
  const std::byte* const indices = summary + layout.offset[SummaryLayout::kTopIndices];
  // The longest text has 24 bytes of value and 11 of index (MostClassBytes).
  std::array<char, 64> text;
  char* const first = text.data() + sizeof(std::uint32_t);
  char* const last = text.data() + text.size();
  for (std::int64_t i = begin; i < end; ++i) {
    std::int32_t index;
    std::memcpy(&index, indices + i * static_cast<std::int64_t>(sizeof(index)), sizeof(index));
    // An index of -1 would look up the last name of a list.
    if (index < 0) index = static_cast<std::int32_t>(i % spec.summary.top_k);
    char* at = PutValue(kernels::LoadElement(spec.output_type, values, i), first, last);
    *at++ = ':';
    at = std::to_chars(at, last, index).ptr;
    const auto size = static_cast<std::uint32_t>(at - first);
    std::memcpy(text.data(), &size, sizeof(size));
    out->append(text.data(), static_cast<std::size_t>(at - text.data()));
  }
}

}  // namespace softmax::server
