#include "tests/support/row_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "kernels/types.h"
#include "tests/support/kernel_cases.h"

namespace softmax::testing {
namespace {

using kernels::DataType;
using kernels::Operation;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostRows = 64;       // of a generation
constexpr std::int64_t kElements = 1 << 14;  // likewise, but one row at least
constexpr int kPatience = 60;                // generations without a worse row before a new start

std::string Text(const std::vector<double>& row) {
  std::ostringstream text;
  text << std::hexfloat;
  for (std::size_t i = 0; i < row.size();) {
    const std::size_t end = static_cast<std::size_t>(
        std::find_if(row.begin() + static_cast<std::ptrdiff_t>(i), row.end(), [&](double x) { return x != row[i]; }) -
        row.begin());
    text << (i == 0 ? "" : ", ") << row[i];
    if (end - i > 1) text << " x " << end - i;
    i = end;
  }
  return text.str();
}

}  // namespace

std::string RowKind::Name() const {
  return std::string(NameOf(input_type)) + "_to_" + NameOf(output_type) + "_" + TraitsOf(operation).name + "_" +
         std::to_string(cols);
}

std::ostream& operator<<(std::ostream& out, const RowKind& kind) { return out << kind.Name(); }

std::vector<RowKind> SearchedKinds() {
  std::vector<RowKind> kinds;
  const auto add = [&](DataType in, DataType out, Operation operation, std::vector<std::int64_t> widths) {
    for (const std::int64_t cols : widths) kinds.push_back({in, out, operation, cols});
  };
  add(DataType::kFloat32, DataType::kFloat32, Operation::kSoftmax, {3, 33, 256, 512, 1024, 4096, 32768});
  add(DataType::kFloat32, DataType::kFloat32, Operation::kLogSoftmax, {2, 3, 5, 7, 8, 50, 1024});
  add(DataType::kFloat16, DataType::kFloat32, Operation::kSoftmax, {1024});
  add(DataType::kFloat16, DataType::kFloat32, Operation::kLogSoftmax, {50});
  add(DataType::kBFloat16, DataType::kFloat32, Operation::kSoftmax, {1024});
  add(DataType::kBFloat16, DataType::kFloat32, Operation::kLogSoftmax, {8, 50});
  add(DataType::kFloat32, DataType::kFloat64, Operation::kSoftmax, {1024});
  add(DataType::kFloat64, DataType::kFloat32, Operation::kSoftmax, {1024});
  add(DataType::kFloat64, DataType::kFloat64, Operation::kSoftmax, {7, 64, 1024, 8192});
  add(DataType::kFloat64, DataType::kFloat64, Operation::kLogSoftmax, {2, 4, 7, 64, 1024});
  return kinds;
}

double SearchSeconds() {
  const char* seconds = std::getenv("SOFTMAX_SEARCH_SECONDS");
  return seconds == nullptr ? 0.1 : std::atof(seconds);
}

void RowSearch::Climb(double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(kElements / kind_.cols, 1, kMostRows));
  Judged current;
  int waited = kPatience;
  do {
    std::vector<Row> next(count);
    const bool anew = waited >= kPatience;
    for (Row& row : next) {
      row = anew ? Start() : current.row;
      if (!anew) Change(&row);
    }
    Judged found = WorstOf(std::move(next));
    waited = anew || found.fraction > current.fraction ? 0 : waited + 1;
    // As bad is good enough: a row can go far on level ground.
    if (anew || found.fraction >= current.fraction) current = std::move(found);
    usual_ = std::max(usual_, current.fraction);
  } while (Clock::now() < end && broken_.empty());
}

double RowSearch::Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

std::int64_t RowSearch::Below(std::int64_t bound) {
  return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
}

double RowSearch::Rounded(double value) const {
  alignas(double) std::byte element[sizeof(double)];
  kernels::StoreElement(kind_.input_type, element, 0, value);
  return kernels::LoadElement(kind_.input_type, element, 0);
}

// One to eight units in the last place away, on either side.
double RowSearch::Neighbour(double value) {
  constexpr int kFractionBits[] = {0, 23, 10, 7, 52};
  const int exponent = value == 0 ? -10 : std::ilogb(value);
  const double ulp = std::ldexp(1.0, exponent - kFractionBits[static_cast<int>(kind_.input_type)]);
  return Rounded(value + (Uniform() < 0.5 ? -1 : 1) * static_cast<double>(1 + Below(8)) * ulp);
}

RowSearch::Row RowSearch::Start() {
  constexpr double kDeviations[] = {0.1, 1, 3, 10};
  const double deviation = kDeviations[Below(4)];
  std::normal_distribution<double> normal(0, deviation);
  Row row(static_cast<std::size_t>(kind_.cols));
  // Any elements, or a few different ones.
  std::vector<double> few(static_cast<std::size_t>(1 + Below(4)));
  for (double& x : few) x = Rounded(normal(random_));
  const bool any = Uniform() < 0.5;
  for (double& x : row) x = any ? Rounded(normal(random_)) : few[static_cast<std::size_t>(Below(std::ssize(few)))];
  // One that has about half of the sum: the nearer to all of it, the smaller its unit in the last place is beside it.
  if (Uniform() < 0.5) {
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    row[static_cast<std::size_t>(Below(kind_.cols))] = Rounded(std::log(sum) + 3 * Uniform() - 0.5);
  }
  return row;
}

void RowSearch::Change(Row* row) {
  Row& x = *row;
  const auto any = [&] { return static_cast<std::size_t>(Below(kind_.cols)); };
  const std::size_t first = any();
  const double other = x[any()];
  const std::int64_t kind = Below(3);
  const double value = kind == 0   ? Neighbour(x[first])
                       : kind == 1 ? other
                                   : Rounded(x[first] + std::normal_distribution<double>()(random_));
  const double before = x[first];
  switch (Below(4)) {
    case 0:  // one element
      x[first] = value;
      break;
    case 1:  // those that are equal to it
      std::replace(x.begin(), x.end(), before, value);
      break;
    case 2: {  // those at a distance of a power of two
      const std::size_t step = std::size_t{1} << Below(1 + std::ilogb(static_cast<double>(kind_.cols)));
      for (std::size_t i = first; i < x.size(); i += step) x[i] = value;
      break;
    }
    default: {  // a stretch of them
      const std::size_t end = std::min(x.size(), first + static_cast<std::size_t>(1 + Below(32)));
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(end), value);
    }
  }
}

void RowSearch::CheckPromise(const kernels::Segment& segment, const Row& row) {
  const kernels::Judgement judged = Judge(kind_.input_type, kind_.output_type, segment);
  promised_ = std::max(promised_, judged.worst);
  if (!judged.ok) broken_ = judged.message + "; the row is " + Text(row);
}

RowSearch::Judged RowSearch::WorstOf(std::vector<Row> rows) {
  const auto cols = static_cast<std::size_t>(kind_.cols);
  const std::size_t in_size = kernels::SizeOf(kind_.input_type);
  const std::size_t out_size = kernels::SizeOf(kind_.output_type);
  std::vector<std::byte> in(rows.size() * cols * in_size);
  std::vector<std::byte> out(rows.size() * cols * out_size);
  for (std::size_t i = 0; i < rows.size() * cols; ++i) {
    kernels::StoreElement(kind_.input_type, in.data(), static_cast<std::int64_t>(i), rows[i / cols][i % cols]);
  }
  kernels::Segment segment;
  segment.input = in.data();
  segment.output = out.data();
  segment.outer = std::ssize(rows);
  segment.cols = segment.input_stride = segment.output_stride = kind_.cols;
  segment.operation = kind_.operation;
  run_(kind_, segment);
  rows_ += std::ssize(rows);
  Judged worst;
  segment.outer = 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    segment.input = in.data() + i * cols * in_size;
    segment.output = out.data() + i * cols * out_size;
    const kernels::Judgement judged = Judge(kind_.input_type, kind_.output_type, segment, kernels::Bounds::kUsual);
    if (!judged.ok && broken_.empty()) CheckPromise(segment, rows[i]);
    if (judged.worst > worst.fraction) worst = {std::move(rows[i]), judged.worst};
  }
  return worst;
}

}  // namespace softmax::testing
