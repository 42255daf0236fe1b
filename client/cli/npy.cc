#include <re2/re2.h>

#include <cstring>
#include <utility>

#include "client/base/program.h"
#include "client/cli/formats.h"

namespace softmax::client {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("not a usable .npy file: " + what); }

absl::StatusOr<DataType> ReadDescr(std::string_view header) {
  std::string descr;
  if (!RE2::PartialMatch(header, R"(['"]descr['"][ \n]*:[ \n]*['"]([^'"]*))", &descr)) {
    return Bad("its header has no simple 'descr'");
  }
  // '<' is little-endian; '=' or nothing is the order of the machine, which is the same wherever this runs.
  const std::string type = descr.starts_with('<') || descr.starts_with('=') ? descr.substr(1) : descr;
  if (type == "f4") return DataType::kFloat32;
  if (type == "f2") return DataType::kFloat16;
  if (type == "f8") return DataType::kFloat64;
  return Bad("its elements are '" + Visible(descr.substr(0, 20)) +
             "'; supported are '<f2', '<f4' and '<f8': save array.astype('<f4')");
}

absl::StatusOr<std::vector<std::int64_t>> ReadShape(std::string_view header) {
  re2::StringPiece list;
  if (!RE2::PartialMatch(header, R"(['"]shape['"][ \n]*:[ \n]*\(([^)]*)\))", &list)) {
    return Bad("its header has no 'shape'");
  }
  static const RE2 number(R"([ \n]*(\d+)L?[ \n]*(?:,|$))");  // Python 2 writes (2L, 3L)
  std::vector<std::int64_t> shape;
  for (std::int64_t size = 0; RE2::Consume(&list, number, &size);) shape.push_back(size);
  if (!RE2::FullMatch(list, R"([ \n]*)")) return Bad("its 'shape' holds no plain numbers");
  if (shape.empty()) return Bad("it is a single number without dimensions; at least one is needed");
  if (shape.size() > kMaxRank) {
    return Bad("it has " + std::to_string(shape.size()) + " dimensions; at most " + std::to_string(kMaxRank) +
               " are supported");
  }
  return shape;
}

// From numpy's Fortran order, where the first index runs fastest, to the order of rows.
void SortByRows(Array* array) {
  const std::size_t rank = array->shape.size();
  const std::size_t size = SizeOf(array->dtype);
  std::vector<std::byte> sorted(array->data.size());
  std::vector<std::int64_t> index(rank, 0);
  for (std::size_t from = 0; from < sorted.size(); from += size) {
    std::int64_t to = 0;
    for (std::size_t d = 0; d < rank; ++d) to = to * array->shape[d] + index[d];
    std::memcpy(&sorted[static_cast<std::size_t>(to) * size], &array->data[from], size);
    for (std::size_t d = 0; d < rank && ++index[d] == array->shape[d]; ++d) index[d] = 0;
  }
  array->data = std::move(sorted);
}

// The header's text; the data follows it.
absl::StatusOr<std::string_view> ReadHeader(std::string_view bytes) {
  if (!LooksLikeNpy(bytes) || bytes.size() < 10) return Bad("it does not begin as one");
  const auto major = static_cast<unsigned char>(bytes[6]);
  if (major != 1 && major != 2) {
    return Bad("format version " + std::to_string(major) + "; supported are 1 and 2");
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) return Bad("it ends within its header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  }
  if (bytes.size() - 8 - length_bytes < length) return Bad("it ends within its header");
  return bytes.substr(8 + length_bytes, length);
}

}  // namespace

bool LooksLikeNpy(std::string_view bytes) { return bytes.substr(0, kMagic.size()) == kMagic; }

absl::StatusOr<Array> ReadNpy(std::string_view bytes) {
  const auto header = ReadHeader(bytes);
  if (!header.ok()) return header.status();
  const auto dtype = ReadDescr(*header);
  if (!dtype.ok()) return dtype.status();
  std::string order;
  if (!RE2::PartialMatch(*header, R"(['"]fortran_order['"][ \n]*:[ \n]*(True|False))", &order)) {
    return Bad("its header has no 'fortran_order'");
  }
  auto shape = ReadShape(*header);
  if (!shape.ok()) return shape.status();

  const auto elements = ElementsOf(*shape);
  const auto at = static_cast<std::size_t>(header->data() + header->size() - bytes.data());
  const std::string_view data = bytes.substr(at);
  if (!elements || *elements * SizeOf(*dtype) != data.size()) {
    return Bad("its shape needs " + (elements ? std::to_string(*elements * SizeOf(*dtype)) : std::string("too many")) +
               " bytes of data, it has " + std::to_string(data.size()));
  }
  Array array{*dtype, *std::move(shape), std::vector<std::byte>(data.size())};
  if (!data.empty()) std::memcpy(array.data.data(), data.data(), data.size());
  if (order == "True") SortByRows(&array);
  return array;
}

std::string WriteNpy(const Array& array) {
  if (array.dtype == DataType::kBFloat16) return WriteNpy(Converted(array, DataType::kFloat32));
  std::string header = "{'descr': '<f" + std::to_string(SizeOf(array.dtype)) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dimension : array.shape) header += std::to_string(dimension) + ", ";
  // One dimension is written (n,), several (n, m).
  header.pop_back();
  if (array.shape.size() > 1) header.pop_back();
  header += "), }";
  // The data begins at a multiple of 64, and the header ends with a newline.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return bytes;
}

}  // namespace softmax::client
