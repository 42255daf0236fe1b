#include "tests/support/malformed.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

constexpr int kInvalidArgument = 3;
constexpr int kUnimplemented = 12;

using Cases = std::vector<MalformedCase>;

void Bad(Cases* cases, std::string name, std::string bytes, std::string must_say) {
  cases->push_back({std::move(name), std::move(bytes), kInvalidArgument, std::move(must_say), false});
}
void Good(Cases* cases, std::string name, std::string bytes) {
  cases->push_back({std::move(name), std::move(bytes), 0, "", true});
}

// The fields of some request that has every field, one by one.
std::vector<std::string> RichRequest(std::int64_t dtype, std::size_t size) {
  return {Scalar(1, 300 + dtype),
          Scalar(2, 1 + dtype % 2),
          Scalar(3, -1),
          Double(4, 0.5),
          Scalar(5, 1),
          Lengths({3, 0}),
          Scalar(7, 2'000'000),
          Block(100, "unknown"),
          Tag(101, 5) + "four",
          Groups(102, 3),
          Input(Tensor(dtype, {2, 3}, 6 * size))};
}

std::string Join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

// Cut between two fields a message is well-formed and lacks the rest; cut anywhere else it is
// malformed.
void AppendTruncations(Cases* cases) {
  constexpr std::size_t kSizes[] = {0, 4, 2, 2, 8};
  for (std::int64_t dtype = 1; dtype <= 4; ++dtype) {
    const std::vector<std::string> fields = RichRequest(dtype, kSizes[dtype]);
    const std::string whole = Join(fields);
    Good(cases, "rich request, dtype " + std::to_string(dtype), whole);
    std::size_t field = 0;
    std::size_t boundary = 0;
    for (std::size_t cut = 0; cut < whole.size(); ++cut) {
      while (boundary < cut) boundary += fields[field++].size();
      Bad(cases, "dtype " + std::to_string(dtype) + " cut at " + std::to_string(cut), whole.substr(0, cut),
          boundary == cut ? "input: is absent" : "malformed");
    }
  }
}

void AppendTensorTruncations(Cases* cases) {
  const std::vector<std::string> fields = {Dtype(1), Shape({2, 3}), Tag(9, 1) + "eight by", Data(24)};
  const std::string says[] = {"input.dtype: is 0", "input.shape: has rank 0", "input.data: has 0", "input.data: has 0"};
  const std::string whole = Join(fields);
  Good(cases, "tensor with an unknown field", Input(whole));
  std::size_t field = 0;
  std::size_t boundary = 0;
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    while (boundary < cut) boundary += fields[field++].size();
    Bad(cases, "tensor cut at " + std::to_string(cut), Input(whole.substr(0, cut)),
        boundary == cut ? says[field] : "malformed");
  }
}

// Calls `add(where, bytes)` with the field in front of and behind a good request's input, and
// inside its tensor.
void EverywhereIn(const std::string& field, const std::function<void(const std::string&, std::string)>& add) {
  const std::string tensor = Tensor(1, {2, 3}, 24);
  // An id comes first everywhere, or 78 01 would look like deflate.
  add(" before input", Scalar(1, 7) + field + Input(tensor));
  add(" after input", Scalar(1, 7) + Input(tensor) + field);
  add(" in input, first", Scalar(1, 7) + Input(field + tensor));
  add(" in input, last", Scalar(1, 7) + Input(tensor + field));
}

void BadEverywhere(Cases* cases, const std::string& name, const std::string& field) {
  EverywhereIn(field, [&](const std::string& where, std::string bytes) {
    Bad(cases, name + where, std::move(bytes), "malformed");
  });
}
void GoodEverywhere(Cases* cases, const std::string& name, const std::string& field) {
  EverywhereIn(field,
               [&](const std::string& where, std::string bytes) { Good(cases, name + where, std::move(bytes)); });
}

void AppendLongVarints(Cases* cases) {
  const std::string eleven = std::string(10, '\xff') + '\x01';
  for (const std::uint32_t field : {1, 2, 3, 5, 6, 7, 9, 2000}) {
    BadEverywhere(cases, "varint of 11 bytes, field " + std::to_string(field), Tag(field, 0) + eleven);
  }
  Bad(cases, "packed shape with a varint of 11 bytes", Input(Dtype(1) + Block(2, eleven) + Data(4)),
      "input.shape: malformed");
  Bad(cases, "packed lengths with a varint of 11 bytes", Block(6, eleven) + Input(Tensor(1, {1}, 4)),
      "lengths: malformed");
  for (int bytes = 1; bytes <= 10; ++bytes) {
    const std::string what = " in " + std::to_string(bytes) + " bytes";
    Good(cases, "id" + what, Tag(1, 0) + Varint(5, bytes) + Input(Tensor(1, {2}, 8)));
    Good(cases, "dtype" + what, Input(Tag(1, 0) + Varint(1, bytes) + Shape({2}) + Data(8)));
    Good(cases, "dimension" + what, Input(Dtype(1) + Block(2, Varint(2, bytes)) + Data(8)));
  }
  for (int bytes = 2; bytes <= 12; ++bytes) {
    const std::string tag = Tag(1, 0, bytes) + Varint(9) + Input(Tensor(1, {2}, 8));
    const std::string length = Tag(15, 2) + Varint(Tensor(1, {2}, 8).size(), bytes) + Tensor(1, {2}, 8);
    const std::string what = " of " + std::to_string(bytes) + " bytes";
    if (bytes <= 5) {
      Good(cases, "tag" + what, tag);
      Good(cases, "length" + what, length);
    } else {
      Bad(cases, "tag" + what, tag, "malformed");
      Bad(cases, "length" + what, length, "malformed");
    }
  }
}

void AppendLengthsPastTheEnd(Cases* cases) {
  const std::uint64_t excess[] = {1,          2,          127,        128,        1u << 20,   0x7fffffef,
                                  0x7ffffff0, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 35, ~0ull >> 1};
  for (const std::uint64_t extra : excess) {
    const std::string by = " claims " + std::to_string(extra) + " too many";
    const std::string tensor = Tensor(1, {2, 3}, 24);
    Bad(cases, "input" + by, Tag(15, 2) + Varint(tensor.size() + extra) + tensor, "input: malformed");
    Bad(cases, "data" + by, Input(Dtype(1) + Shape({2, 3}) + Tag(15, 2) + Varint(24 + extra) + std::string(24, 'x')),
        "input.data: malformed");
    Bad(cases, "shape" + by, Input(Dtype(1) + Tag(2, 2) + Varint(2 + extra) + Varint(2) + Varint(3)),
        "input.shape: malformed");
    Bad(cases, "packed lengths" + by, Tag(6, 2) + Varint(1 + extra) + Varint(3), "lengths: malformed");
    BadEverywhere(cases, "unknown field" + by, Tag(77, 2) + Varint(64 + extra));
  }
  // The data lies inside the message, but not inside its tensor.
  Bad(cases, "data beyond its tensor",
      Tag(15, 2) + Varint(3) + Tag(15, 2) + Varint(20) + std::string(20, 'x') + Scalar(1, 3), "input.data: malformed");
  Bad(cases, "packed shape beyond its length", Input(Dtype(1) + Tag(2, 2) + "\x01\x80\x01"), "input.shape: malformed");
  Bad(cases, "packed lengths beyond their length", Tag(6, 2) + "\x01\x80\x01", "lengths: malformed");
}

void AppendTagsAndGroups(Cases* cases) {
  for (std::uint32_t wire_type = 0; wire_type < 8; ++wire_type) {
    BadEverywhere(cases, "field 0, wire type " + std::to_string(wire_type), Tag(0, wire_type) + std::string(8, '\0'));
  }
  for (const std::uint32_t field : {1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 536870911}) {
    for (const std::uint32_t wire_type : {4, 6, 7}) {
      BadEverywhere(cases, "wire type " + std::to_string(wire_type) + ", field " + std::to_string(field),
                    Tag(field, wire_type) + std::string(8, '\1'));
    }
    BadEverywhere(cases, "open group, field " + std::to_string(field), Tag(field, 3) + Scalar(1, 1));
    BadEverywhere(cases, "group closed by another, field " + std::to_string(field),
                  Tag(field, 3) + Tag(field == 1 ? 2 : field - 1, 4));
    GoodEverywhere(cases, "group, field " + std::to_string(field),
                   Tag(field, 3) + Scalar(1, 1) + Block(3, "x") + Tag(field, 4));
  }
  for (const std::uint32_t field : {11, 14, 16, 1000, 536870911}) {
    const std::string name = "unknown field " + std::to_string(field);
    GoodEverywhere(cases, name + ", varint", Scalar(field, -1));
    GoodEverywhere(cases, name + ", fixed64", Tag(field, 1) + "12345678");
    GoodEverywhere(cases, name + ", bytes", Block(field, "abc"));
    GoodEverywhere(cases, name + ", fixed32", Tag(field, 5) + "1234");
  }
  const std::string tensor = Tensor(1, {2}, 8);
  Good(cases, "100 groups", Groups(8, 100) + Input(tensor));
  Bad(cases, "101 groups", Groups(8, 101) + Input(tensor), "malformed");
  Good(cases, "99 groups in input", Input(Groups(8, 99) + tensor));
  Bad(cases, "100 groups in input", Input(Groups(8, 100) + tensor), "malformed");
  Bad(cases, "a million groups", Groups(8, 1'000'000) + Input(tensor), "malformed");
}

void AppendCompressed(Cases* cases) {
  const std::pair<std::string, std::string> magics[] = {{std::string("\x1f\x8b\x08\x00", 4), "gzip"},
                                                        {"\x78\x01", "deflate"},
                                                        {"\x78\x5e", "deflate"},
                                                        {"\x78\x9c", "deflate"},
                                                        {"\x78\xda", "deflate"}};
  for (const auto& [magic, name] : magics) {
    for (const int size : {0, 1, 20, 1000}) {
      std::string bytes = magic;
      for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 151 + 3));
      cases->push_back({name + " and " + std::to_string(size) + " bytes", bytes, kUnimplemented,
                        "looks like " + name + "; only identity is accepted", false});
    }
  }
}

}  // namespace

void AppendBrokenEncodings(Cases* cases) {
  AppendTruncations(cases);
  AppendTensorTruncations(cases);
  AppendLongVarints(cases);
  AppendLengthsPastTheEnd(cases);
  AppendTagsAndGroups(cases);
  AppendCompressed(cases);
}

std::vector<MalformedCase> MalformedCases() {
  Cases cases;
  AppendBrokenEncodings(&cases);
  AppendBrokenContracts(&cases);
  return cases;
}

}  // namespace softmax::testing
