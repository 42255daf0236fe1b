#include "server/rpc/guard/header_reader.h"

#include <algorithm>
#include <string>

#include "server/rpc/guard/tensor_methods.h"

namespace softmax::server {
namespace {

constexpr std::uint32_t kStaticEntries = 61;
constexpr std::uint32_t kFirstPath = 4;  // ":path: /"
constexpr std::uint32_t kLastPath = 5;   // ":path: /index.html"

struct Code {
  std::uint32_t bits;
  int length;
};

// Appendix B, for the characters of names.
Code HuffmanCode(char c) {
  static constexpr std::string_view kFive = "012aceiost";
  static constexpr std::string_view kSix = " %-./3456789=A_bdfghlmnpru";
  static constexpr std::string_view kSeven = ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz";
  if (const std::size_t at = kFive.find(c); at != std::string_view::npos) return {static_cast<std::uint32_t>(at), 5};
  if (const std::size_t at = kSix.find(c); at != std::string_view::npos) {
    return {static_cast<std::uint32_t>(0x14 + at), 6};
  }
  return {static_cast<std::uint32_t>(0x5c + kSeven.find(c)), 7};
}

std::string Huffman(std::string_view text) {
  std::string coded;
  std::uint64_t bits = 0;
  int length = 0;
  for (const char c : text) {
    const Code code = HuffmanCode(c);
    bits = bits << code.length | code.bits;
    for (length += code.length; length >= 8; length -= 8) coded += static_cast<char>(bits >> (length - 8));
  }
  if (length > 0) coded += static_cast<char>(bits << (8 - length) | 0xffu >> length);
  return coded;
}

// A name as it may be sent.
struct Name {
  explicit Name(std::string_view text) : plain(text), huffman(Huffman(text)) {}
  std::string plain;
  std::string huffman;
};

struct Text {
  std::string_view bytes;
  bool huffman = false;
  bool Is(const Name& name) const { return bytes == (huffman ? name.huffman : name.plain); }
};

bool IsPathName(const Text& text) {
  static const auto* const name = new Name(":path");
  return text.Is(*name);
}

bool IsTensorPath(const Text& text) {
  static const auto* const names = new std::array<Name, 4>{Name(kSoftmaxMethod), Name(kSoftmaxStreamMethod),
                                                           Name(kModelInferMethod), Name(kModelStreamInferMethod)};
  return std::any_of(names->begin(), names->end(), [&text](const Name& name) { return text.Is(name); });
}

// Section 5.1, the first byte's upper bits being something else. Nothing here needs more than 28 bits.
std::optional<std::uint32_t> TakeInteger(std::string_view* rest, int prefix_bits) {
  if (rest->empty()) return std::nullopt;
  const std::uint32_t most = (1u << prefix_bits) - 1;
  std::uint32_t value = static_cast<std::uint8_t>(rest->front()) & most;
  rest->remove_prefix(1);
  if (value < most) return value;
  for (int shift = 0; shift < 28 && !rest->empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest->front());
    rest->remove_prefix(1);
    value += (byte & 0x7fu) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<Text> TakeText(std::string_view* rest) {
  const bool huffman = !rest->empty() && (rest->front() & 0x80) != 0;
  const std::optional<std::uint32_t> size = TakeInteger(rest, 7);
  if (!size.has_value() || *size > rest->size()) return std::nullopt;
  const Text text{rest->substr(0, *size), huffman};
  rest->remove_prefix(*size);
  return text;
}

}  // namespace

std::optional<HeaderReader::Field> HeaderReader::FieldAt(std::uint32_t index) const {
  if (index == 0) return std::nullopt;
  if (index <= kStaticEntries) return index < kFirstPath || index > kLastPath ? Field::kOther : Field::kOtherPath;
  const std::uint32_t age = index - kStaticEntries;
  if (age > kEntries) return std::nullopt;
  return entries_[(inserted_ - age) % kEntries];
}

std::optional<HeaderReader::Field> HeaderReader::TakeLiteral(std::string_view* rest, int prefix_bits) const {
  const std::optional<std::uint32_t> index = TakeInteger(rest, prefix_bits);
  if (!index.has_value()) return std::nullopt;
  bool is_path = false;
  if (*index == 0) {
    const std::optional<Text> name = TakeText(rest);
    if (!name.has_value()) return std::nullopt;
    is_path = IsPathName(*name);
  } else {
    const std::optional<Field> field = FieldAt(*index);
    if (!field.has_value()) return std::nullopt;
    is_path = *field != Field::kOther;
  }
  const std::optional<Text> value = TakeText(rest);
  if (!value.has_value()) return std::nullopt;
  if (!is_path) return Field::kOther;
  return IsTensorPath(*value) ? Field::kTensorPath : Field::kOtherPath;
}

HeaderReader::Headers HeaderReader::Take(std::string_view block) {
  if (lost_) return {};
  // Most clients send the same few bytes again and again, all of them indices.
  if (inserted_ == known_at_ && block == known_block_) return known_;
  const std::uint32_t before = inserted_;
  const Headers headers = Read(block);
  if (inserted_ == before && !lost_ && block.size() <= kMostKnown) {
    known_at_ = before;
    known_block_ = block;
    known_ = headers;
  }
  return headers;
}

HeaderReader::Headers HeaderReader::Read(std::string_view block) {
  bool tensors = false;
  bool others = false;
  std::uint32_t fields = 0;
  while (!block.empty() && !lost_) {
    const auto first = static_cast<std::uint8_t>(block.front());
    std::optional<Field> field;
    if ((first & 0x80) != 0) {
      const std::optional<std::uint32_t> index = TakeInteger(&block, 7);
      if (index.has_value()) field = FieldAt(*index);
    } else if ((first & 0x40) != 0) {
      field = TakeLiteral(&block, 6);
      if (field.has_value()) entries_[inserted_++ % kEntries] = *field;
    } else if ((first & 0x20) != 0) {
      if (TakeInteger(&block, 5).has_value()) field = Field::kOther;  // the table's size
    } else {
      field = TakeLiteral(&block, 4);
    }
    ++fields;
    lost_ = !field.has_value();
    tensors |= field == Field::kTensorPath;
    others |= field == Field::kOtherPath;
  }
  return {tensors && !others && !lost_, fields};
}

}  // namespace softmax::server
