#include <absl/strings/str_cat.h>

#include <algorithm>

#include "client/base/security_files.h"
#include "client/loadgen/plan/raw_options.h"

namespace softmax::client {
namespace {

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
  absl::Status status = ReadPem("--ca", raw.ca, "CERTIFICATE", &tls.root_certificates);
  if (status.ok()) status = ReadPem("--cert", raw.certificate, "CERTIFICATE", &tls.certificate_chain);
  if (status.ok()) status = ReadPem("--key", raw.key, "PRIVATE KEY", &tls.private_key);
  return std::string(status.message());
}

std::string CheckToken(RawOptions& raw) {
  if (raw.token_file.empty()) return "";
  LoadOptions& load = raw.plan.load;
  if (const absl::Status status = ReadToken("--token-file", raw.token_file, &load.token); !status.ok()) {
    return std::string(status.message());
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
