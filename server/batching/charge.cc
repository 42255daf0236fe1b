#include "server/batching/charge.h"

#include <algorithm>

namespace softmax::server {
namespace {

bool IsWide(const TensorSpec& spec) { return spec.input_type == kernels::DataType::kFloat64; }

// Of the kernels alone.
std::uint64_t Computing(const TensorSpec& spec, const Prices& prices) {
  const auto rows = static_cast<std::uint64_t>(spec.rows());
  const std::uint64_t elements = spec.elements();
  const SummarySpec& summary = spec.summary;
  std::uint64_t work = 0;
  if (IsWide(spec)) work += elements * prices.wide_element;
  if (spec.has_tensor()) {
    work += rows * prices.row;
    if (IsWide(spec) && spec.is_log()) work += rows * prices.wide_log_row;
  }
  if (!summary.any()) return work;
  work += rows * prices.summary_row + elements * prices.summary_element;
  if (spec.inner > 1) work += elements * prices.gathered_column;
  if (summary.entropy) work += rows * prices.entropy_row + elements * prices.entropy_element;
  work += rows * std::min<std::uint64_t>(summary.top_k, static_cast<std::uint64_t>(spec.cols)) * prices.selected;
  return work;
}

}  // namespace

Charge ChargeOf(const TensorSpec& spec, std::uint64_t message_bytes, CallKind kind, const Prices& prices) {
  const std::uint64_t decoded = spec.lengths_bytes() + spec.indices_bytes();
  Charge charge;
  charge.held = (kind == CallKind::kUnary ? Charge::kUnaryHeld : Charge::kStreamedHeld) +
                std::max(message_bytes, spec.received_bytes() + decoded) + decoded;
  charge.answer = spec.output_bytes() + spec.text_bytes;
  charge.work = Charge::kCallWork + spec.received_bytes() + decoded + charge.answer +
                spec.region_bytes() / prices.region_bytes + Computing(spec, prices) + spec.texts * prices.text +
                spec.pieces * prices.piece;
  return charge;
}

}  // namespace softmax::server
