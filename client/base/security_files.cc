#include "client/base/security_files.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <cstddef>

#include "client/base/read_file.h"
#include "client/softmax_client/header_text.h"

namespace softmax::client {
namespace {

// Larger than any bundle of authorities, and small enough to be read where a wrong file is named.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

absl::Status Read(const char* flag, const std::string& path, std::string* text) {
  const auto bytes = ReadFile(path, kMostBytes);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, " ", bytes.status().message()));
  if (bytes->empty()) return absl::InvalidArgumentError(absl::StrCat(flag, " ", NameOfInput(path), ": is empty"));
  *text = *bytes;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPem(const char* flag, const std::string& path, const char* kind, std::string* text) {
  if (path.empty()) return absl::OkStatus();
  absl::Status status = Read(flag, path, text);
  const bool is_pem = absl::StrContains(*text, "-----BEGIN ") && absl::StrContains(*text, absl::StrCat(kind, "-----"));
  if (!status.ok() || is_pem) return status;
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", NameOfInput(path), ": is not PEM of a ", kind,
                                                 " (it has no \"-----BEGIN ", kind, "-----\" line)"));
}

absl::Status ReadToken(const char* flag, const std::string& path, std::string* token) {
  if (path.empty()) return absl::OkStatus();
  if (absl::Status status = Read(flag, path, token); !status.ok()) return status;
  while (token->ends_with('\n')) token->pop_back();
  return CheckHeaderText(absl::StrCat(flag, " ", NameOfInput(path)), *token);
}

}  // namespace softmax::client
