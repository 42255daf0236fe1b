#include "server/rpc/oip/class_texts.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "kernels/reference.h"

namespace softmax::server {

std::string ClassTexts(const TensorSpec& spec, const std::byte* summary) {
  std::string texts;
  if (spec.elements() == 0) return texts;
  const SummaryLayout layout = spec.summary_layout();
  const std::byte* const values = summary + layout.offset[SummaryLayout::kTopValues];
  const std::byte* const indices = summary + layout.offset[SummaryLayout::kTopIndices];
  const std::int64_t count = spec.rows() * spec.summary.top_k;
  std::array<char, 400> text;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t index;
    std::memcpy(&index, indices + i * static_cast<std::int64_t>(sizeof(index)), sizeof(index));
    const auto size = static_cast<std::uint32_t>(
        std::snprintf(text.data(), text.size(), "%f:%d", kernels::LoadElement(spec.output_type, values, i), index));
    texts.append(reinterpret_cast<const char*>(&size), sizeof(size));
    texts.append(text.data(), size);
  }
  return texts;
}

}  // namespace softmax::server
