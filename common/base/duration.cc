#include "common/base/duration.h"

#include <algorithm>
#include <cmath>

namespace softmax {

std::optional<WrittenDuration> ReadDuration(std::string_view text, std::span<const Unit> units,
                                            std::chars_format format) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, format);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view name(stop, static_cast<std::size_t>(end - stop));
  if (number == 0 && name.empty()) return WrittenDuration{0, 0};
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return name == u.name; });
  if (unit == units.end()) return std::nullopt;
  return WrittenDuration{number, number * static_cast<double>(unit->factor)};
}

}  // namespace softmax
