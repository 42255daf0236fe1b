#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cmath>

#include "client/loadgen/plan/raw_options.h"

namespace softmax::client {
namespace {

// protobuf's own limit on a message is 2 GiB.
constexpr double kMaxElements = static_cast<double>(std::uint64_t{1} << 31) / 8;

// "--address 'x' has no port" from "target: 'x' has no port".
std::string AddressProblem(const absl::Status& status) {
  return absl::StrCat("--address ", absl::StripPrefix(status.message(), "target: "));
}

std::string CheckAddresses(const GivenFlags& /*given*/, RawOptions& raw) {
  if (raw.addresses.empty()) return "";
  std::vector<Address>& addresses = raw.plan.load.addresses;
  addresses.clear();
  for (const std::string& text : raw.addresses) {
    const auto parsed = ParseTarget(text);
    if (!parsed.ok()) return AddressProblem(parsed.status());
    for (const Address& address : *parsed) {
      const bool known = std::any_of(addresses.begin(), addresses.end(),
                                     [&](const Address& other) { return other.target == address.target; });
      if (known) return absl::StrCat("--address ", address.target, " is given twice");
      addresses.push_back(address);
    }
  }
  return "";
}

std::string CheckTypes(const GivenFlags& given, RawOptions& raw) {
  Mix& mix = raw.plan.load.mix;
  if (!raw.dtypes.empty()) mix.dtypes.clear();
  for (const std::string& text : raw.dtypes) {
    const auto type = ParseWeightedType(text);
    if (!type) return "--dtype " + text + ": expected float32, float16, bfloat16 or float64, optionally :weight";
    mix.dtypes.push_back(*type);
  }
  if (!raw.operations.empty()) mix.operations.clear();
  for (const std::string& text : raw.operations) {
    const auto operation = ParseWeightedOperation(text);
    if (!operation) return "--op " + text + ": expected softmax or log_softmax, optionally :weight";
    mix.operations.push_back(*operation);
  }
  if (!raw.answers.empty()) mix.answers.clear();
  for (const std::string& text : raw.answers) {
    const auto answer = ParseWeightedAnswer(text);
    if (!answer) {
      return "--answer " + text +
             ": expected tensor, or topN, log-sum-exp and entropy with + between, optionally :weight";
    }
    mix.answers.push_back(*answer);
  }
  if (given.count("--output-dtype") != 0) {
    raw.plan.load.output_dtype = DataTypeFromName(raw.output_dtype);
    if (!raw.plan.load.output_dtype) {
      return "--output-dtype " + raw.output_dtype + ": expected float32, float16, bfloat16 or float64";
    }
  }
  return "";
}

std::string CheckDistribution(const char* flag, const std::string& text, std::optional<Distribution>* out) {
  auto parsed = Distribution::Parse(text);
  if (!parsed.ok()) return absl::StrCat(flag, " ", parsed.status().message());
  *out = *std::move(parsed);
  return "";
}

std::string CheckDrawn(const GivenFlags& given, RawOptions& raw) {
  Mix& mix = raw.plan.load.mix;
  const std::string rows = given.count("--rows") != 0 ? raw.rows : "1";
  const std::string columns = given.count("--cols") != 0 ? raw.columns : "1024";
  std::string problem = CheckDistribution("--rows", rows, &mix.rows);
  if (problem.empty()) problem = CheckDistribution("--cols", columns, &mix.columns);
  if (!problem.empty()) return problem;
  if (static_cast<double>(mix.rows->max()) * static_cast<double>(mix.columns->max()) > kMaxElements) {
    return absl::StrCat("--rows ", rows, " and --cols ", columns, " may draw more than ",
                        static_cast<std::int64_t>(kMaxElements), " elements");
  }
  return "";
}

std::string CheckShapes(const GivenFlags& given, RawOptions& raw) {
  Mix& mix = raw.plan.load.mix;
  for (const std::string& text : raw.shapes) {
    auto shape = ParseShape(text);
    if (!shape) return "--shape " + text + ": expected dimensions like 4096x1024, optionally :weight";
    mix.shapes.push_back(std::move(*shape));
  }
  if (raw.payload_bytes != 0) {
    for (const auto& dtype : mix.dtypes) {
      const auto shape = ShapeForPayload(raw.payload_bytes, dtype.value);
      if (!shape) {
        return absl::StrCat("--payload-bytes ", raw.payload_bytes, " is not a multiple of the element size ",
                            SizeOf(dtype.value), ", or above 1 GiB");
      }
      if (mix.dtypes.size() > 1) return "--payload-bytes needs a single --dtype";
      mix.shapes.push_back(*shape);
    }
  }
  if (given.count("--rows") + given.count("--cols") != 0) return CheckDrawn(given, raw);
  if (mix.shapes.empty()) mix.shapes.push_back({{64, 1024}, 1});
  return "";
}

std::string CheckAxisAndScale(const GivenFlags& given, RawOptions& raw) {
  LoadOptions& load = raw.plan.load;
  if (given.count("--scale") != 0) load.scale = raw.scale;
  if (!std::isfinite(raw.scale) || raw.scale <= 0) return "--scale must be finite and above 0";
  if (given.count("--axis") == 0) return "";
  load.axis = raw.axis;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const ShapeSpec& spec : load.mix.shapes) shapes.push_back(spec.shape);
  if (shapes.empty()) shapes.push_back({1, 1});
  for (const auto& shape : shapes) {
    const auto rank = static_cast<std::int32_t>(shape.size());
    if (raw.axis < -rank || raw.axis >= rank) {
      return absl::StrCat("--axis ", raw.axis, " is out of range for --shape ", ShapeText(shape));
    }
  }
  return "";
}

}  // namespace

std::string CheckWhatIsSent(const GivenFlags& given, RawOptions& raw) {
  for (const auto check : {CheckAddresses, CheckTypes, CheckShapes, CheckAxisAndScale}) {
    std::string problem = check(given, raw);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace softmax::client
