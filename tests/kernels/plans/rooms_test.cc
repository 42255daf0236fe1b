#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/kernels/combinations.h"
#include "tests/kernels/plans/room.h"

// Which family of kernels takes which shape, for models of four devices, as the table rooms.txt beside this file says.
// A change of the planners has to change the table.
namespace softmax::kernels::testing {
namespace {

// Columns that are whole vectors of every type.
std::vector<std::int64_t> WholeWidths() {
  std::vector<std::int64_t> widths;
  for (std::int64_t cols = 8; cols <= 128; cols += 8) widths.push_back(cols);
  for (std::int64_t cols = 160; cols <= 1024; cols += 32) widths.push_back(cols);
  for (std::int64_t cols = 1280; cols <= 16384; cols += 256) widths.push_back(cols);
  for (const std::int64_t cols : {20480, 24576, 32000, 32768, 49152, 65536, 98304, 128256, 131072, 151936, 196608,
                                  262144, 262152, 524288, 1048576, 2097152, 8388608}) {
    widths.push_back(cols);
  }
  return widths;
}

// Columns that are not.
std::vector<std::int64_t> OddWidths() {
  std::vector<std::int64_t> widths;
  for (std::int64_t cols = 1; cols <= 65; cols += 2) widths.push_back(cols);
  for (std::int64_t cols = 97; cols <= 1025; cols += 32) widths.push_back(cols);
  for (const std::int64_t cols : {1281,  1535,  2049,  3001,   4097,   5003,   8193,   12289,  16385,  20011,
                                  32769, 50257, 65537, 100003, 131073, 170003, 262143, 262145, 400009, 1000003}) {
    widths.push_back(cols);
  }
  return widths;
}

// How many rows: a number, or as many as make the input a number of bytes.
struct Size {
  const char* name;
  std::int64_t rows;
  std::int64_t bytes = 0;

  std::int64_t RowsOf(DataType type, std::int64_t cols) const {
    if (bytes == 0) return rows;
    return std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(SizeOf(type)) / cols);
  }
};
constexpr Size kSizes[] = {
    {"1 row", 1}, {"64 rows", 64}, {"4096 rows", 4096}, {"256 MiB of input", 0, std::int64_t{256} << 20}};

const char* NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "fp32";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kBFloat16:
      return "bf16";
    case DataType::kFloat64:
      break;
  }
  return "fp64";
}
const char* NameOf(Operation operation) { return operation == Operation::kSoftmax ? "softmax" : "log-softmax"; }

using Rooms = std::vector<std::string>;  // one for each device
Rooms RoomsOf(const Shape& shape) {
  Rooms rooms;
  for (const DeviceModel& model : kDeviceModels) rooms.push_back(RoomOf(shape, model.device));
  return rooms;
}

void Line(const std::string& first, const Rooms& rooms, std::ostream& out) {
  out << std::left << std::setw(26) << first;
  for (std::size_t i = 0; i + 1 < rooms.size(); ++i) out << std::setw(15) << rooms[i];
  out << rooms.back() << "\n";
}

struct Named {
  std::string name;
  Shape shape;
};

// Titles of lists of shapes that are run alike, and the lines that are theirs.
class Table {
 public:
  void Add(const std::string& title, const std::vector<Named>& shapes) { AddLines(Head(title, shapes), Runs(shapes)); }
  // Only the numbers.
  void AddNumbers(const std::string& title, const std::vector<Named>& shapes) { AddLines(Head(title, shapes), ""); }

  void Print(std::ostream& out) const {
    for (const Entry& entry : entries_) out << "\n" << entry.titles << entry.lines;
  }

 private:
  struct Entry {
    std::string titles;
    std::string lines;
  };

  static std::string Head(const std::string& title, const std::vector<Named>& shapes) {
    std::uint64_t numbers = 0;
    for (const Named& named : shapes) {
      for (const DeviceModel& model : kDeviceModels) numbers = numbers * 31 + NumbersOf(named.shape, model.device);
    }
    std::ostringstream out;
    out << "# " << title << "; numbers " << std::hex << numbers % (1u << 24) << "\n";
    return out.str();
  }

  // One line for neighbours in the list that all devices run alike.
  static std::string Runs(const std::vector<Named>& shapes) {
    std::ostringstream out;
    for (std::size_t begin = 0; begin < shapes.size();) {
      const Rooms rooms = RoomsOf(shapes[begin].shape);
      std::size_t end = begin + 1;
      while (end < shapes.size() && RoomsOf(shapes[end].shape) == rooms) ++end;
      std::string name = shapes[begin].name;
      if (end > begin + 1) name += ".." + shapes[end - 1].name;
      Line(name, rooms, out);
      begin = end;
    }
    return out.str();
  }

  void AddLines(const std::string& title, const std::string& lines) {
    for (Entry& entry : entries_) {
      if (entry.lines != lines) continue;
      entry.titles += title;
      return;
    }
    entries_.push_back({title, lines});
  }

  std::vector<Entry> entries_;
};

std::string TypesOf(DataType input, DataType output) {
  return input == output ? NameOf(input) : std::string(NameOf(input)) + " in, " + NameOf(output) + " out,";
}

std::vector<Named> Rows(Shape shape, const Size& size, const std::vector<std::int64_t>& widths) {
  std::vector<Named> shapes;
  for (const std::int64_t cols : widths) {
    shape.cols = cols;
    shape.outer = size.RowsOf(shape.input_type, cols);
    shapes.push_back({std::to_string(cols), shape});
  }
  return shapes;
}

void LastAxis(DataType type, Table* table) {
  for (const auto& [operation, size] : Product(kBothOperations, kSizes)) {
    const std::string title = TypesOf(type, type) + " " + NameOf(operation) + ", " + size.name;
    const Shape shape{type, type, operation, 1, 1, 1};
    table->Add(title + ", whole vectors", Rows(shape, size, WholeWidths()));
    table->Add(title + ", odd columns", Rows(shape, size, OddWidths()));
  }
}

// Results of another type than the input's.
void MixedLastAxis(DataType input, DataType output, Table* table) {
  for (const Operation operation : kBothOperations) {
    std::vector<Named> shapes;
    for (const auto& [size, widths] : Product(kSizes, std::vector{WholeWidths(), OddWidths()})) {
      const std::vector<Named> more = Rows({input, output, operation, 1, 1, 1}, size, widths);
      shapes.insert(shapes.end(), more.begin(), more.end());
    }
    table->AddNumbers(TypesOf(input, output) + " " + NameOf(operation) + ", the last axis", shapes);
  }
}

struct Sizes {
  std::int64_t outer;
  std::int64_t cols;
  std::int64_t inner;
};
constexpr Sizes kAxisShapes[] = {
    {1024, 32, 1024}, {4096, 64, 64},    {128, 8, 65536},  {65536, 64, 16},  {8, 19, 2097152}, {4, 21, 263169},
    {4, 2, 1048576},  {64, 4096, 256},   {64, 1000, 256},  {3, 70000, 64},   {4096, 781, 3},   {256, 1024, 1000},
    {1, 16384, 4096}, {32, 257, 7168},   {1024, 8193, 7},  {1, 65536, 4096}, {1, 65536, 1024}, {64, 1000, 1000},
    {64, 1000, 1001}, {16, 4096, 1001},  {4096, 257, 33},  {4096, 500, 31},  {1, 4096, 65536}, {16, 20000, 256},
    {1, 10000, 6656}, {2, 100000, 1000}, {1, 65536, 1002}, {16, 20000, 202}, {4, 150, 262144}, {5, 48, 3}};

void OtherAxes(DataType input, DataType output, Table* table) {
  for (const Operation operation : kBothOperations) {
    std::vector<Named> shapes;
    for (const Sizes& s : kAxisShapes) {
      const auto name = std::to_string(s.outer) + "," + std::to_string(s.cols) + "," + std::to_string(s.inner);
      shapes.push_back({name, {input, output, operation, s.outer, s.cols, s.inner}});
    }
    table->Add(TypesOf(input, output) + " " + NameOf(operation) + ", the middle axis", shapes);
  }
}

// Of all kinds, up to 2^28 elements; sizes near powers of two and multiples of multiprocessors among them.
void AnyShapes(Table* table) {
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64};
  std::mt19937_64 random(1);
  const auto size = [&random](std::uint64_t most_bits) {
    const std::int64_t near = std::int64_t{1} << random() % (most_bits + 1);
    const std::int64_t unit = random() % 2 == 0 ? 1 : kDeviceModels[random() % 4].device.multiprocessors;
    return std::max<std::int64_t>(1, (near + static_cast<std::int64_t>(random() % 5) - 2) * unit);
  };
  std::vector<Named> shapes;
  while (shapes.size() < 20'000) {
    const DataType input = kTypes[random() % 4];
    const DataType output = random() % 4 == 0 ? kTypes[random() % 4] : input;
    const Operation operation = random() % 2 == 0 ? Operation::kSoftmax : Operation::kLogSoftmax;
    const Shape shape{input, output, operation, size(14), size(18), random() % 2 == 0 ? 1 : size(10)};
    if (shape.outer * shape.cols * shape.inner <= 1 << 28) shapes.push_back({"", shape});
  }
  table->AddNumbers("20,000 shapes of all kinds", shapes);
}

std::string TableNow() {
  std::ostringstream out;
  out << "The family of kernels (docs/kernels.md) that takes a dense tensor in device memory: a line for columns, or\n"
         "for outer, columns, inner, that follow each other in the test's list and are run alike. fp16 is run as bf16 "
         "is.\n"
         "Numbers: a checksum of all that the planners say of the shapes (family, blocks, threads, shared memory,\n"
         "parameters); of rows whose results have another type, the numbers only.\n\n";
  Rooms devices;
  for (const DeviceModel& model : kDeviceModels) devices.emplace_back(model.name);
  Line("", devices, out);
  Table table;
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat64};
  for (const DataType type : kTypes) LastAxis(type, &table);
  for (const DataType type : kTypes) OtherAxes(type, type, &table);
  OtherAxes(DataType::kBFloat16, DataType::kFloat32, &table);
  MixedLastAxis(DataType::kBFloat16, DataType::kFloat32, &table);
  MixedLastAxis(DataType::kFloat32, DataType::kBFloat16, &table);
  MixedLastAxis(DataType::kFloat64, DataType::kFloat32, &table);
  AnyShapes(&table);
  table.Print(out);
  return out.str();
}

TEST(RoomsTest, EveryShapeIsRunAsTheTableSays) {
  std::ifstream file(SOFTMAX_ROOMS_TABLE);
  std::ostringstream expected;
  expected << file.rdbuf();
  const std::string now = TableNow();
  if (now == expected.str()) return;
  const std::string path = std::filesystem::absolute("rooms.now");  // stays, unlike the test's own folder
  std::ofstream(path) << now;
  std::istringstream old_lines(expected.str());
  std::istringstream new_lines(now);
  std::string old_line;
  std::string new_line;
  while (old_line == new_line && std::getline(new_lines, new_line)) std::getline(old_lines, old_line);
  FAIL() << "tests/kernels/plans/rooms.txt says\n  " << old_line << "\nthe planners\n  " << new_line
         << "\nThe whole table as they have it is in " << path << ": where that is meant, put it in the other's place.";
}

TEST(RoomsTest, BothTypesOf16BitsAreRunAlike) {
  for (const auto& [operation, size, cols] : Product(kBothOperations, kSizes, OddWidths())) {
    Shape shape{DataType::kFloat16, DataType::kFloat16, operation, size.RowsOf(DataType::kFloat16, cols), cols, 1};
    const Rooms half = RoomsOf(shape);
    shape.input_type = shape.output_type = DataType::kBFloat16;
    EXPECT_EQ(half, RoomsOf(shape)) << cols << " columns, " << size.name;
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
