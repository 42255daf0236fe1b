#include "server/batching/charge.h"

#include <gtest/gtest.h>

namespace softmax::server {
namespace {

TensorSpec Spec(std::int64_t rows, std::int64_t cols) {
  TensorSpec spec;
  spec.outer = rows;
  spec.cols = cols;
  return spec;
}

TEST(Charge, OfAPlainRequestIsWhatItCarries) {
  const Charge charge = ChargeOf(Spec(16, 1024), 0, CallKind::kUnary, kDevicePrices);
  EXPECT_EQ(charge.held, Charge::kUnaryHeld + (64u << 10));
  EXPECT_EQ(charge.answer, 64u << 10);
  EXPECT_EQ(charge.work, Charge::kCallWork + (128u << 10));
  EXPECT_EQ(charge.own_work(), 128u << 10);
}

TEST(Charge, TakesAnAnswerLargerThanItsRequestForWhatItIs) {
  TensorSpec wide = Spec(16, 1024);
  wide.input_type = kernels::DataType::kFloat16;
  wide.output_type = kernels::DataType::kFloat64;
  EXPECT_EQ(ChargeOf(wide, 0, CallKind::kUnary, kDevicePrices).answer, 128u << 10);
  TensorSpec best = Spec(10900, 1);
  best.input_type = best.output_type = kernels::DataType::kFloat16;
  best.summary.partial = true;
  best.summary.top_k = 1024;
  EXPECT_EQ(ChargeOf(best, 0, CallKind::kUnary, kDevicePrices).answer, 10900u * 1024 * (2 + 4));
  best.summary.full = true;
  EXPECT_EQ(ChargeOf(best, 0, CallKind::kUnary, kDevicePrices).answer, 10900u * (1024 * (2 + 4) + 2));
  best.text_bytes = 1000;
  EXPECT_EQ(ChargeOf(best, 0, CallKind::kUnary, kDevicePrices).answer, 10900u * (1024 * (2 + 4) + 2) + 1000);
}

TEST(Charge, HoldsTheWholeMessageAndWhatIsReadOfIt) {
  TensorSpec spec = Spec(4, 4);
  EXPECT_EQ(ChargeOf(spec, 1 << 20, CallKind::kStreamed, kDevicePrices).held, Charge::kStreamedHeld + (1u << 20));
  spec.has_lengths = true;
  EXPECT_EQ(ChargeOf(spec, 0, CallKind::kStreamed, kDevicePrices).held, Charge::kStreamedHeld + 64 + 16 + 16);
}

TEST(Charge, OfRowsOfOneIsThatOfRows) {
  const TensorSpec narrow = Spec(1 << 20, 1), wide = Spec(1, 1 << 20);
  const auto work = [](TensorSpec spec, bool entropy) {
    spec.summary.partial = spec.summary.entropy = entropy;
    return ChargeOf(spec, 0, CallKind::kUnary, kCpuPrices).work;
  };
  EXPECT_GT(work(narrow, false), 8 * work(wide, false));
  EXPECT_GT(work(narrow, true), 50 * work(wide, true));
  // A device computes while the bytes of others travel.
  EXPECT_EQ(ChargeOf(narrow, 0, CallKind::kUnary, kDevicePrices).work,
            ChargeOf(wide, 0, CallKind::kUnary, kDevicePrices).work);
}

TEST(Charge, OfTextsAndPiecesIsTheHosts) {
  TensorSpec spec = Spec(4, 4);
  const std::uint64_t plain = ChargeOf(spec, 0, CallKind::kUnary, kDevicePrices).work;
  spec.texts = 10;
  spec.pieces = 100;
  EXPECT_EQ(ChargeOf(spec, 0, CallKind::kUnary, kDevicePrices).work,
            plain + 10 * kDevicePrices.text + 100 * kDevicePrices.piece);
}

TEST(Charge, OfARegionIsNoMessageAndNoAnswer) {
  TensorSpec spec = Spec(16, 1024);
  spec.input_in_region = spec.output_in_region = true;
  const Charge charge = ChargeOf(spec, 64, CallKind::kUnary, kCpuPrices);
  EXPECT_EQ(charge.held, Charge::kUnaryHeld + 64);
  EXPECT_EQ(charge.answer, 0u);
  EXPECT_EQ(charge.own_work(), (128u << 10) / kCpuPrices.region_bytes + 16 * kCpuPrices.row);
}

}  // namespace
}  // namespace softmax::server
