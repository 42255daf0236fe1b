#include <absl/strings/str_cat.h>

#include <cmath>
#include <string>
#include <vector>

#include "client/loadgen/plan/raw_options.h"

namespace softmax::client {
namespace {

// protobuf's own limit on a message is 2 GiB.
constexpr double kMaxElements = static_cast<double>(std::uint64_t{1} << 31) / 8;

std::string CheckDrawn(Mix& mix) {
  if (!mix.rows) mix.rows = *Distribution::Parse("1");
  if (!mix.columns) mix.columns = *Distribution::Parse("1024");
  if (static_cast<double>(mix.rows->max()) * static_cast<double>(mix.columns->max()) <= kMaxElements) return "";
  return absl::StrCat("--rows ", mix.rows->text(), " and --cols ", mix.columns->text(), " may draw more than ",
                      static_cast<std::int64_t>(kMaxElements), " elements");
}

std::string CheckPayload(std::uint64_t bytes, Mix& mix) {
  const auto shape = ShapeForPayload(bytes, mix.dtypes.front().value);
  if (!shape) {
    return absl::StrCat("--payload-bytes ", bytes, " is not a multiple of the element size ",
                        SizeOf(mix.dtypes.front().value), ", or above 1 GiB");
  }
  mix.shapes.push_back(*shape);
  return mix.dtypes.size() == 1 ? "" : "--payload-bytes needs a single --dtype";
}

std::string CheckAxis(const LoadOptions& load) {
  std::vector<ShapeSpec> shapes = load.mix.shapes;
  if (shapes.empty()) shapes.push_back({{1, 1}});
  for (const ShapeSpec& spec : shapes) {
    const auto rank = static_cast<std::int32_t>(spec.shape.size());
    if (load.axis && (*load.axis < -rank || *load.axis >= rank)) {
      return absl::StrCat("--axis ", *load.axis, " is out of range for --shape ", ShapeText(spec.shape));
    }
  }
  return "";
}

}  // namespace

std::string CheckShapes(const GivenFlags& given, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  Mix& mix = load.mix;
  const bool drawn = given.at("--rows") + given.at("--cols") != 0;
  std::string problem;
  if (drawn) {
    problem = CheckDrawn(mix);
  } else if (raw.payload_bytes != 0) {
    problem = CheckPayload(raw.payload_bytes, mix);
  } else if (mix.shapes.empty()) {
    mix.shapes.push_back({{64, 1024}, 1});
  }
  if (load.scale && (!std::isfinite(*load.scale) || *load.scale <= 0)) return "--scale must be finite and above 0";
  return problem.empty() ? CheckAxis(load) : problem;
}

}  // namespace softmax::client
