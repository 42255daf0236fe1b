#include "client/base/security_flags.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <CLI/CLI.hpp>
#include <cstddef>

#include "client/base/file.h"
#include "client/softmax_client/options_check.h"

namespace softmax::client {
namespace {

// Larger than any bundle of authorities, and small enough to be read where a wrong file is named.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

// An empty name, as of a variable that is not set, must not turn a security flag off.
std::string CheckNamed(const std::string& path) { return path.empty() ? "names no file" : ""; }

// A flag that was not given leaves `*text` as it is.
absl::Status Read(const char* flag, const std::string& path, std::string* text) {
  if (path.empty()) return absl::OkStatus();
  const auto bytes = ReadFile(path, kMostBytes);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, " ", bytes.status().message()));
  if (bytes->empty()) return absl::InvalidArgumentError(absl::StrCat(flag, " ", NameOfInput(path), ": is empty"));
  *text = *bytes;
  return absl::OkStatus();
}

// `kind` stands in the PEM's first line: CERTIFICATE, or PRIVATE KEY with or without the key's kind before it.
absl::Status ReadPem(const char* flag, const std::string& path, const char* kind, std::string* text) {
  absl::Status status = Read(flag, path, text);
  const bool is_pem = absl::StrContains(*text, "-----BEGIN ") && absl::StrContains(*text, absl::StrCat(kind, "-----"));
  if (path.empty() || !status.ok() || is_pem) return status;
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", NameOfInput(path), ": is not PEM of a ", kind,
                                                 " (it has no \"-----BEGIN ", kind, "-----\" line)"));
}

// One token of visible ASCII, and line feeds behind it.
absl::Status ReadToken(const char* flag, const std::string& path, std::string* token) {
  absl::Status status = Read(flag, path, token);
  if (path.empty() || !status.ok()) return status;
  while (token->ends_with('\n')) token->pop_back();
  return CheckHeaderText(absl::StrCat(flag, " ", NameOfInput(path)), *token);
}

absl::Status ReadTls(const SecurityFlags& flags, std::optional<TlsOptions>* out) {
  if (flags.certificate.empty() != flags.key.empty()) {
    return absl::InvalidArgumentError(flags.key.empty()
                                          ? absl::StrCat("--cert ", flags.certificate, ": needs --key too")
                                          : absl::StrCat("--key ", flags.key, ": needs --cert too"));
  }
  if (!flags.tls && flags.ca.empty() && flags.certificate.empty()) return absl::OkStatus();
  TlsOptions& tls = out->emplace();
  absl::Status status = ReadPem("--ca", flags.ca, "CERTIFICATE", &tls.root_certificates);
  if (status.ok()) status = ReadPem("--cert", flags.certificate, "CERTIFICATE", &tls.certificate_chain);
  if (status.ok()) status = ReadPem("--key", flags.key, "PRIVATE KEY", &tls.private_key);
  return status;
}

}  // namespace

void AddSecurityFlags(CLI::App& app, SecurityFlags* flags) {
  const auto add_file = [&](const char* flag, std::string& path, const char* what) {
    app.add_option(flag, path, what)->check(CheckNamed)->type_name("FILE")->group("Security");
  };
  app.add_flag("--tls", flags->tls, "speak TLS; implied by the three files below")->group("Security");
  add_file("--ca", flags->ca, "PEM file of whom to trust; unset: the machine's own list");
  add_file("--cert", flags->certificate, "PEM file of this client's certificate, where the server asks for one");
  add_file("--key", flags->key, "PEM file of its private key");
  app.add_option("--authority", flags->authority, "name to ask for, and that the certificate must have")
      ->group("Security");
  add_file("--token-file", flags->token_file, "file with a bearer token; needs TLS or unix sockets");
}

absl::StatusOr<Credentials> ReadCredentials(const SecurityFlags& flags) {
  // gRPC ends the program over anything else in a header.
  if (!flags.authority.empty() && !CheckHeaderText("", flags.authority).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--authority '", flags.authority, "': must be of visible ASCII characters"));
  }
  Credentials credentials;
  credentials.authority = flags.authority;
  absl::Status status = ReadTls(flags, &credentials.tls);
  if (status.ok()) status = ReadToken("--token-file", flags.token_file, &credentials.token);
  if (!status.ok()) return status;
  return credentials;
}

void SetCredentials(const Credentials& credentials, ClientOptions* options) {
  options->tls = credentials.tls;
  options->authority = credentials.authority;
  if (!credentials.token.empty()) options->bearer_token = [token = credentials.token] { return token; };
}

}  // namespace softmax::client
