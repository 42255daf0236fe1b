#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "client/loadgen/plan/raw_options.h"

namespace softmax::client {
namespace {

// Larger than any bundle of authorities, and small enough to be read where a wrong file is named.
constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

std::string ReadFile(const char* flag, const std::string& path, std::string* text) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  text->assign(kMaxFileBytes + 1, '\0');
  if (file) file.read(text->data(), static_cast<std::streamsize>(text->size()));
  if (!file.is_open() || file.bad()) {
    return absl::StrCat(flag, " ", path, ": cannot be read: ", std::strerror(errno != 0 ? errno : EIO));
  }
  text->resize(static_cast<std::size_t>(file.gcount()));
  if (text->size() > kMaxFileBytes) return absl::StrCat(flag, " ", path, ": is above ", kMaxFileBytes, " bytes");
  return "";
}

// `kind` stands in the PEM's first line: CERTIFICATE, or PRIVATE KEY with or without the key's kind before it.
std::string ReadPem(const char* flag, const std::string& path, const char* kind, std::string* text) {
  if (path.empty()) return "";
  std::string problem = ReadFile(flag, path, text);
  if (!problem.empty()) return problem;
  if (absl::StrContains(*text, "-----BEGIN ") && absl::StrContains(*text, absl::StrCat(kind, "-----"))) return "";
  return absl::StrCat(flag, " ", path, ": is not PEM of a ", kind, " (it has no \"-----BEGIN ", kind, "-----\" line)");
}

// What may stand in a header; gRPC ends the program where something else does.
bool IsHeaderText(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string CheckTls(RawOptions& raw) {
  if (raw.certificate.empty() != raw.key.empty()) {
    const bool lacks_key = raw.key.empty();
    return absl::StrCat(lacks_key ? "--cert " : "--key ", lacks_key ? raw.certificate : raw.key, ": needs ",
                        lacks_key ? "--key" : "--cert", " too");
  }
  LoadOptions& load = raw.plan.load;
  if (!raw.tls && raw.ca.empty() && raw.certificate.empty()) return "";
  TlsOptions& tls = load.tls.emplace();
  std::string problem = ReadPem("--ca", raw.ca, "CERTIFICATE", &tls.root_certificates);
  if (problem.empty()) problem = ReadPem("--cert", raw.certificate, "CERTIFICATE", &tls.certificate_chain);
  if (problem.empty()) problem = ReadPem("--key", raw.key, "PRIVATE KEY", &tls.private_key);
  return problem;
}

std::string CheckToken(RawOptions& raw) {
  if (raw.token_file.empty()) return "";
  LoadOptions& load = raw.plan.load;
  std::string text;
  std::string problem = ReadFile("--token-file", raw.token_file, &text);
  if (!problem.empty()) return problem;
  load.token = std::string(absl::StripTrailingAsciiWhitespace(text));
  if (load.token.empty()) return absl::StrCat("--token-file ", raw.token_file, ": is empty");
  if (!IsHeaderText(load.token)) {
    return absl::StrCat("--token-file ", raw.token_file, ": must hold one token of visible ASCII characters");
  }
  const auto in_clear = std::find_if(load.addresses.begin(), load.addresses.end(),
                                     [](const Address& address) { return !address.is_local; });
  if (load.tls || in_clear == load.addresses.end()) return "";
  return absl::StrCat("--token-file ", raw.token_file, ": needs --tls (or --ca) for --address ", in_clear->target,
                      "; in plain text anybody could read the token");
}

}  // namespace

std::string CheckSecurity(const GivenFlags& /*given*/, RawOptions& raw) {
  if (!IsHeaderText(raw.plan.load.authority)) {
    return absl::StrCat("--authority '", raw.plan.load.authority, "': must be of visible ASCII characters");
  }
  std::string problem = CheckTls(raw);
  return problem.empty() ? CheckToken(raw) : problem;
}

}  // namespace softmax::client
