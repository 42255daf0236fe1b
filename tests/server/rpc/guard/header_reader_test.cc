#include "server/rpc/guard/header_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace softmax::server {
namespace {

constexpr char kInfer[] = "/inference.GRPCInferenceService/ModelInfer";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
// ModelInfer's, as nghttp2 1.52 codes it.
constexpr char kHuffmanInfer[] =
    "\x60\xd5\x4a\x5b\x0b\x51\x0a\xbe\x2d\xba\xef\x64\xaa\x52\xd8\x5a"
    "\x88\x5d\xc5\xb3\xb9\x88\x56\x34\x1e\x42\xd1\x92\xa9\x4b\x67";
constexpr char kHuffmanName[] = "\xb9\x58\xd3\x3f";  // :path

std::string Text(const std::string& text) { return static_cast<char>(text.size()) + text; }
std::string Path(char how, const std::string& path) { return how + Text(path); }  // of the static table's name

constexpr char kIndexed = 0x44;
constexpr char kNotIndexed = 0x04;
constexpr char kNeverIndexed = 0x14;
// The newest entry of the dynamic table, and those before it.
std::string Entry(int age) { return std::string(1, static_cast<char>(0x80 | (62 + age))); }

bool BringsTensors(HeaderReader& reader, const std::string& block) { return reader.Take(block).brings_tensors; }

TEST(HeaderReader, KnowsTensorsFromTheRest) {
  for (const char how : {kIndexed, kNotIndexed, kNeverIndexed}) {
    HeaderReader reader;
    for (const char* path : {"/softmax.v1.SoftmaxService/Softmax", "/softmax.v1.SoftmaxService/SoftmaxStream", kInfer,
                             "/inference.GRPCInferenceService/ModelStreamInfer"}) {
      EXPECT_TRUE(BringsTensors(reader, "\x83\x86" + Path(how, path))) << path;
    }
    for (const char* path : {kCheck, "/softmax.v1.SoftmaxService/GetServerInfo", "/softmax.v1.SoftmaxService/Softma",
                             "/softmax.v1.SoftmaxService/Softmax/", ""}) {
      EXPECT_FALSE(BringsTensors(reader, "\x83\x86" + Path(how, path))) << path;
    }
  }
}

TEST(HeaderReader, RemembersWhatWasIndexed) {
  HeaderReader reader;
  EXPECT_TRUE(BringsTensors(reader, "\x83" + Path(kIndexed, kInfer)));
  EXPECT_TRUE(BringsTensors(reader, "\x83" + Entry(0)));
  EXPECT_FALSE(BringsTensors(reader, "\x83" + Path(kIndexed, kCheck) + "\x40" + Text("a") + Text("b")));
  EXPECT_FALSE(BringsTensors(reader, "\x83" + Entry(0)));  // a: b
  EXPECT_FALSE(BringsTensors(reader, "\x83" + Entry(1)));  // the check
  EXPECT_TRUE(BringsTensors(reader, "\x83" + Entry(2)));
  // Entry 63's name, the check's, and 62's, with another value each.
  EXPECT_TRUE(BringsTensors(reader, std::string("\x0f\x30", 2) + Text(kInfer)));
  EXPECT_FALSE(BringsTensors(reader, std::string("\x0f\x2f", 2) + Text(kInfer)));
}

TEST(HeaderReader, ReadsHuffmansCodeAndNamesInFull) {
  HeaderReader reader;
  const auto coded = [](const std::string& text) { return static_cast<char>(0x80 | text.size()) + text; };
  EXPECT_TRUE(BringsTensors(reader, "\x44" + coded(kHuffmanInfer)));
  EXPECT_TRUE(BringsTensors(reader, std::string(1, '\0') + coded(kHuffmanName) + coded(kHuffmanInfer)));
  EXPECT_TRUE(BringsTensors(reader, "\x40" + Text(":path") + Text(kInfer)));
  EXPECT_TRUE(BringsTensors(reader, Entry(0)));
  EXPECT_FALSE(BringsTensors(reader, "\x44" + Text(kHuffmanInfer)));
  EXPECT_FALSE(BringsTensors(reader, "\x44" + coded(kInfer)));
}

TEST(HeaderReader, TheTablesOldestEntriesGo) {
  HeaderReader reader;
  EXPECT_TRUE(BringsTensors(reader, Path(kIndexed, kInfer)));
  for (int i = 0; i < 128; ++i) BringsTensors(reader, "\x40" + Text("a") + Text("b"));
  EXPECT_FALSE(BringsTensors(reader, std::string("\xff\x3f", 2)));  // index 190: the path's place is another's
  EXPECT_FALSE(BringsTensors(reader, Path(kNotIndexed, kInfer)));   // no table has that index: nothing is believed
}

TEST(HeaderReader, WhatIsNotUnderstoodBringsNone) {
  for (const std::string& block :
       {std::string("\x80"), std::string("\x04\x7f\xff\xff\xff\xff\x7f"), std::string("\x04\x05/a"),
        std::string("\x40"), std::string("\xff\xff\xff\xff\xff\xff")}) {
    HeaderReader reader;
    EXPECT_FALSE(BringsTensors(reader, Path(kNotIndexed, kInfer) + block));
    EXPECT_FALSE(BringsTensors(reader, Path(kNotIndexed, kInfer))) << "and all that follow";
  }
  HeaderReader reader;
  EXPECT_FALSE(BringsTensors(reader, Path(kNotIndexed, kInfer) + Path(kNotIndexed, kCheck))) << "two paths";
  EXPECT_FALSE(BringsTensors(reader, Path(kNotIndexed, kCheck) + Path(kNotIndexed, kInfer))) << "two paths";
  EXPECT_TRUE(BringsTensors(reader, "\x20" + Path(kNotIndexed, kInfer))) << "a table's size is understood";
}

TEST(HeaderReader, CountsFields) {
  HeaderReader reader;
  EXPECT_EQ(reader.Take("\x83\x86" + Path(kIndexed, kInfer)).fields, 3u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reader.Take("\x83" + Entry(0)).fields, 2u);
  EXPECT_EQ(reader.Take("").fields, 0u);
  std::string many;
  for (int i = 0; i < 200; ++i) many += Entry(0);
  EXPECT_EQ(reader.Take(many).fields, 200u);
}

}  // namespace
}  // namespace softmax::server
