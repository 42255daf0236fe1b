#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference.h"

// A search for rows whose answers are as wrong as can be: hill climbing from random rows, by changes that align what
// rounding does (copies of elements, at distances that are powers of two; units in the last place). docs/numerics.md
// tells what it has found. The bounds that are promised (kernels::Bounds::kPromised) have to hold for whatever it
// finds.
namespace softmax::testing {

// What is searched. A row's bits do not depend on the kernel that runs it, so the kind decides.
struct RowKind {
  kernels::DataType input_type;
  kernels::DataType output_type;
  kernels::Operation operation;
  std::int64_t cols;

  std::string Name() const;  // as in "fp16_to_fp32_log_softmax_50"
};
std::ostream& operator<<(std::ostream& out, const RowKind& kind);

// Those whose sums are built differently, and those where a search has come far.
std::vector<RowKind> SearchedKinds();

// Seconds a kind that a search may take: SOFTMAX_SEARCH_SECONDS, or 0.1, in which a bound that is far too narrow fails.
double SearchSeconds();

class RowSearch {
 public:
  // Computes the rows of a dense segment in host memory.
  using Run = std::function<void(const RowKind& kind, const kernels::Segment& segment)>;

  RowSearch(const RowKind& kind, Run run, std::uint64_t seed) : kind_(kind), run_(std::move(run)), random_(seed) {}

  void Climb(double seconds);

  // The largest errors. The climb is over that of the usual bound: the promised one leaves more room beside what a
  // row's distances cost, so that a climb over it would only look for far elements.
  double usual() const { return usual_; }
  double promised() const { return promised_; }  // 0 where the usual bound was kept
  std::int64_t rows() const { return rows_; }
  // Empty while the bounds hold; otherwise the judge's words and the row, equal neighbours counted.
  const std::string& broken() const { return broken_; }

 private:
  using Row = std::vector<double>;  // elements, each of which the input type holds
  struct Judged {
    Row row;
    double fraction = -1;
  };

  double Uniform();
  std::int64_t Below(std::int64_t bound);
  double Rounded(double value) const;
  double Neighbour(double value);
  Row Start();
  void Change(Row* row);
  void CheckPromise(const kernels::Segment& segment, const Row& row);
  // The worst of them.
  Judged WorstOf(std::vector<Row> rows);

  const RowKind kind_;
  const Run run_;
  std::mt19937_64 random_;
  double usual_ = 0;
  double promised_ = 0;
  std::int64_t rows_ = 0;
  std::string broken_;
};

}  // namespace softmax::testing
