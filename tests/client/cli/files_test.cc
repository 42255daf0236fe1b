#include "client/cli/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "client/base/command_line.h"
#include "client/cli/formats.h"
#include "client/cli/summary_text.h"

namespace softmax::client {
namespace {

using ::testing::HasSubstr;

std::string Npy(char major, const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY", 6);
  bytes += major;
  bytes += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i));
  }
  return bytes + header + data;
}

std::string ErrorOf(const std::string& bytes) {
  const auto array = ReadNpy(bytes);
  EXPECT_FALSE(array.ok());
  return std::string(array.status().message());
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  const std::string data("\0\0\x80\x3f\0\0\0\x40", 8);
  for (const char version : {1, 2}) {
    const auto array =
        ReadNpy(Npy(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }      \n", data));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(ElementAt(*array, 0), 1.0);
    EXPECT_EQ(ElementAt(*array, 1), 2.0);
  }
  const auto vector = ReadNpy(Npy(1, "{\"shape\": (1,), \"fortran_order\": False, \"descr\": \"<f8\"}", data));
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_EQ(vector->shape, std::vector<std::int64_t>{1});
}

TEST(NpyTest, ReadsWhatOldAndOtherNumpiesWrite) {
  const std::string data("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40", 24);  // 1 to 6
  const auto read = [&](const std::string& descr, const std::string& order, const std::string& shape) {
    const auto array =
        ReadNpy(Npy(1, "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n", data));
    EXPECT_TRUE(array.ok()) << array.status();
    std::vector<double> values;
    for (std::int64_t i = 0; array.ok() && i < CountOf(*array); ++i) values.push_back(ElementAt(*array, i));
    return values;
  };
  const std::vector<double> in_order = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(read("=f4", "False", "(2, 3)"), in_order);
  EXPECT_EQ(read("f4", "False", "(2, 3)"), in_order);
  EXPECT_EQ(read("<f4", "False", "(2L, 3L)"), in_order);
  EXPECT_EQ(read("<f4", "False", "(6L,)"), in_order);
  EXPECT_EQ(read("<f4", "True", "(6,)"), in_order);
  EXPECT_EQ(read("<f4", "True", "(1, 6)"), in_order);
  EXPECT_EQ(read("<f4", "True", "(6, 1)"), in_order);
  EXPECT_EQ(read("<f4", "True", "(2, 3)"), (std::vector<double>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(read("<f4", "True", "(3, 1, 2)"), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

TEST(NpyTest, WritesWhatItReads) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64}) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{6}, {2, 3}, {1, 2, 3, 1, 1, 1, 1, 1}}) {
      const Array array = FromValues(std::vector<double>{1, -2, 0.5, INFINITY, -0.0, 3}, shape, dtype);
      const std::string bytes = WriteNpy(array);
      EXPECT_EQ(bytes.find('\n') % 64, 63u);
      EXPECT_EQ(bytes.find("(6,)") != std::string::npos, shape.size() == 1) << "numpy takes (6) for a number";
      const auto read = ReadNpy(bytes);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->dtype, dtype);
      EXPECT_EQ(read->shape, shape);
      EXPECT_EQ(read->data, array.data);
    }
  }
  const Array half = FromValues(std::vector<double>{1.5, 2}, {2}, DataType::kBFloat16);
  const auto widened = ReadNpy(WriteNpy(half));
  ASSERT_TRUE(widened.ok());
  EXPECT_EQ(widened->dtype, DataType::kFloat32);
  EXPECT_EQ(ElementAt(*widened, 0), 1.5);
}

TEST(NpyTest, BadFilesAreNamedForWhatTheyAre) {
  const std::string data(8, '\0');
  EXPECT_THAT(ErrorOf("hello"), HasSubstr("does not begin as one"));
  EXPECT_THAT(ErrorOf(Npy(3, "{}", data)), HasSubstr("version 3"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", data)), HasSubstr("'>f4'"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", data)), HasSubstr("'<i8'"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", data)),
              HasSubstr("descr"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", data)),
              HasSubstr("save array.astype('<f4')"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '\x1b[31m', 'fortran_order': False, 'shape': (1,)}", data)),
              HasSubstr("'\\u001b[31m'"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<f4', 'shape': (1, 2)}", data)), HasSubstr("fortran_order"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", data)),
              HasSubstr("without dimensions"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", data)),
              HasSubstr("needs 12 bytes of data, it has 8"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -1)}", data)),
              HasSubstr("'shape'"));
  EXPECT_THAT(ErrorOf(Npy(1,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, "
                          "9223372036854775807)}",
                          data)),
              HasSubstr("too many"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", data)),
              HasSubstr("9 dimensions"));
  EXPECT_THAT(ErrorOf(Npy(1, "{'descr': '<f4', 'fortran_order': False", data)), HasSubstr("'shape'"));
  const std::string good = Npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", data);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ReadNpy(good.substr(0, size)).ok()) << size;
  }
}

// In memory of exactly that size, so that AddressSanitizer sees a read behind the end.
TEST(NpyTest, AFileThatEndsAtAKeyOfItsHeaderIsRefusedAndNotReadFurther) {
  for (const char* const header :
       {"{'descr':", "{'descr': '<f4', 'fortran_order':", "{'descr': '<f4', 'fortran_order': False, 'shape':"}) {
    const std::string bytes = Npy(1, header, "");
    const std::vector<char> exact(bytes.begin(), bytes.end());
    EXPECT_FALSE(ReadNpy({exact.data(), exact.size()}).ok()) << header;
  }
}

TEST(TextTest, ReadsRows) {
  const auto text = ReadRows("1 2\t3\r\n\n  -inf +4.5e-1 nan\n", Separator::kSpace);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(ElementAt(*text, 3), -INFINITY);
  EXPECT_EQ(ElementAt(*text, 4), 0.45);
  EXPECT_TRUE(std::isnan(ElementAt(*text, 5)));
  const auto csv = ReadRows("1, 2\n3,4", Separator::kComma);
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_EQ(csv->shape, (std::vector<std::int64_t>{2, 2}));
}

TEST(TextTest, BadLinesAreNamed) {
  const auto message = [](const char* text, Separator separator) {
    const auto array = ReadRows(text, separator);
    EXPECT_FALSE(array.ok()) << text;
    return std::string(array.status().message());
  };
  EXPECT_EQ(message("1,2\n\n3\n", Separator::kComma), "line 3: 1 numbers, but the rows above have 2");
  EXPECT_EQ(message("1 2\n3 x4\n", Separator::kSpace), "line 2: 'x4' is not a number");
  EXPECT_EQ(message("1,,2", Separator::kComma), "line 1: '' is not a number");
  EXPECT_EQ(message("1,2,", Separator::kComma), "line 1: '' is not a number");
  EXPECT_EQ(message("1 2x", Separator::kSpace), "line 1: '2x' is not a number");
  EXPECT_EQ(message(" \n\n", Separator::kSpace), "there are no numbers in it");
  EXPECT_EQ(message(std::string(50, 'x').c_str(), Separator::kSpace),
            "line 1: '" + std::string(40, 'x') + "' is not a number");
}

TEST(TextTest, WritesTheFewestDigitsThatGiveTheValueBack) {
  const Array array = FromValues(std::vector<double>{0.1, 1.0 / 3, -INFINITY, NAN}, {2, 2}, DataType::kFloat32);
  EXPECT_EQ(WriteRows(array, Separator::kComma), "0.1,0.33333334\n-inf,nan\n");
  EXPECT_EQ(WriteRows(FromValues(std::vector<double>{0.1}, {1}, DataType::kFloat64), Separator::kSpace), "0.1\n");
}

TEST(FilesTest, KnowsAFormatByItsContentAndName) {
  const std::string path = ::testing::TempDir() + "known.npy";
  const Array array = FromValues(std::vector<double>{1, 2}, {2}, DataType::kFloat16);
  ASSERT_TRUE(SaveArray(path, Format::kNpy, array).ok());
  const auto loaded = LoadArray(path, Format::kAuto);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->format, Format::kNpy);
  EXPECT_EQ(loaded->array.data, array.data);
  ASSERT_TRUE(SaveArray(path, Format::kCsv, array).ok());
  EXPECT_EQ(LoadArray(path, Format::kCsv)->format, Format::kCsv);
}

TEST(SummaryTextTest, HasALineOfEachPartOfEachRow) {
  const std::string path = ::testing::TempDir() + "labels.txt";
  std::ofstream(path) << "zero\r\none\n";
  const auto labels = ReadLabels(path);
  ASSERT_TRUE(labels.ok()) << labels.status();
  CliOptions options;
  options.top = 2;
  options.at = {5};
  options.log_sum_exp = options.entropy = true;
  Summary summary(DataType::kFloat32, sizeof(float), {16, 16, 8, 8, 8, 8});
  const auto put = [&](Summary::Part part, auto values) {
    std::memcpy(summary.mutable_part(part), values.data(), summary.bytes(part).size());
  };
  put(Summary::kTopValues, std::vector{0.5f, 0.25f, 0.75f, 0.125f});
  put(Summary::kTopIndices, std::vector<std::int32_t>{1, 0, 2, 1});
  put(Summary::kValuesAt, std::vector{0.03125f, 0.0625f});
  put(Summary::kLogSumExp, std::vector{3.0f, 4.0f});
  put(Summary::kMaximum, std::vector{2.5f, 3.5f});
  put(Summary::kEntropy, std::vector{0.75f, 1.5f});
  EXPECT_EQ(SummaryText(options, summary, 2, /*is_double=*/false, *labels),
            "0\t1\t0.5\tone\n0\t0\t0.25\tzero\n0\t5\t0.03125\n"
            "0\tlog_sum_exp\t3\n0\tmaximum\t2.5\n0\tentropy\t0.75\n"
            "1\t2\t0.75\n1\t1\t0.125\tone\n1\t5\t0.0625\n"
            "1\tlog_sum_exp\t4\n1\tmaximum\t3.5\n1\tentropy\t1.5\n");
}

TEST(OptionsTest, ReadsDurations) {
  using std::chrono::milliseconds;
  EXPECT_EQ(ParseDuration("2m"), milliseconds(120000));
  EXPECT_EQ(ParseDuration("1.5"), milliseconds(1500));
  for (const char* bad : {"nan", "1e9", "1e5h"}) EXPECT_FALSE(ParseDuration(bad)) << bad;
}

}  // namespace
}  // namespace softmax::client
