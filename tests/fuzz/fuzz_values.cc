// libFuzzer over the values of flags, variables and the config file. Byte 0 chooses the parser; what it takes is
// written and read again as the same value.
#include <string>

#include "client/softmax_client/target.h"
#include "common/base/nearest.h"
#include "server/config/check.h"
#include "server/config/values.h"
#include "tests/fuzz/require.h"

namespace softmax::server {
namespace {

using softmax::testing::Require;

void CheckBytes(const std::string& text) {
  std::uint64_t value = 0;
  if (!ParseBytes(text, &value).empty()) return;
  std::uint64_t again = ~value;
  Require(ParseBytes(FormatBytes(value), &again).empty() && again == value, "a size is written exactly");
}

void CheckDuration(const std::string& text) {
  std::chrono::nanoseconds value{0};
  if (!ParseDuration(text, &value).empty()) return;
  Require(value.count() >= 0, "no duration is negative");
  std::chrono::nanoseconds again{-1};
  Require(ParseDuration(FormatDuration(value), &again).empty() && again == value, "a duration is written exactly");
}

void CheckOrdinals(const std::string& text) {
  std::vector<std::uint32_t> value;
  if (!ParseOrdinals(text, &value).empty()) return;
  std::vector<std::uint32_t> again;
  Require(ParseOrdinals(FormatOrdinals(value), &again).empty() && again == value, "ordinals are written exactly");
}

void CheckCount(const std::string& text) {
  std::uint64_t value = 0;
  if (!ParseCount(text, {2, 100}, &value).empty()) return;
  Require(value >= 2 && value <= 100, "a count is within its range");
}

void CheckMode(const std::string& text) {
  unsigned mode = 0;
  if (ParseSocketMode(text, &mode).ok()) Require(mode <= 0777 && (mode & 0600) == 0600, "a mode lets its owner in");
}

void CheckTarget(const std::string& text) {
  const auto addresses = client::ParseTarget(text);
  if (addresses.ok()) Require(!addresses->empty(), "a target has an address");
}

void Check(std::uint8_t parser, const std::string& text) {
  Backend backend = Backend::kAuto;
  switch (parser % 8) {
    case 0:
      return CheckBytes(text);
    case 1:
      return CheckDuration(text);
    case 2:
      return CheckOrdinals(text);
    case 3:
      return CheckCount(text);
    case 4:
      return CheckMode(text);
    case 5:
      return CheckTarget(text);
    case 6:
      (void)ParseBackend(text, &backend);
      (void)Nearest(text, {"max-batch-bytes", "max-queue-delay", "address"});
      return;
    default:
      (void)ParseAddress(text);
  }
}

}  // namespace
}  // namespace softmax::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  softmax::server::Check(data[0], std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
