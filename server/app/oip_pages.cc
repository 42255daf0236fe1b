#include "server/app/oip_pages.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "server/wire/oip.h"

namespace softmax::server {
namespace {

constexpr std::string_view kModels = "/v2/models/";
constexpr std::string_view kOnlyVersion = "/versions/1";

HttpPage Json(const char* status, std::string body) { return {status, "application/json", std::move(body) + "\n"}; }
HttpPage Error(const char* status, const char* words) {
  return Json(status, absl::StrCat(R"({"error":")", words, R"("})"));
}

HttpPage State(const char* what, bool is) {
  return Json(is ? "200 OK" : "503 Service Unavailable",
              absl::StrCat(R"({")", what, is ? R"(":true})" : R"(":false})"));
}

// Nothing that a caller has sent stands in an answer, and names of models need no escapes.
HttpPage ModelPage(const InferModel& model) {
  const std::string tensor = absl::StrCat(R"(","datatype":")", DatatypeName(model.datatype), R"(","shape":[-1,-1]}])");
  return Json("200 OK", absl::StrCat(R"({"name":")", model.name, R"(","versions":["1"],"platform":"softmax",)",
                                     R"("inputs":[{"name":"X)", tensor, R"(,"outputs":[{"name":"Y)", tensor, "}"));
}

bool TakeEnd(std::string_view end, std::string_view* text) {
  if (!text->ends_with(end)) return false;
  text->remove_suffix(end.size());
  return true;
}

HttpPage AnswerModel(const Health& health, std::string_view name) {
  const bool asks_ready = TakeEnd("/ready", &name);
  TakeEnd(kOnlyVersion, &name);
  const InferModel* const model = FindInferModel(name, "");
  if (model == nullptr) {
    return Error("404 Not Found",
                 "no such model or page; models are softmax and log_softmax, and each with _fp16, _bf16 and _fp64");
  }
  return asks_ready ? State("ready", health.ready()) : ModelPage(*model);
}

}  // namespace

HttpPages OipPages(const Health& health, std::string version) {
  return [&health, version = std::move(version)](std::string_view method,
                                                 std::string_view path) -> std::optional<HttpPage> {
    if (path != "/v2" && !path.starts_with("/v2/")) return std::nullopt;
    if (method != "GET" && method != "HEAD") {
      return Error("501 Not Implemented",
                   "tensors are not taken over HTTP; call ModelInfer of inference.GRPCInferenceService over gRPC");
    }
    if (path == "/v2" || path == "/v2/") {
      return Json("200 OK", absl::StrCat(R"({"name":"softmax-server","version":")", version, R"(","extensions":[]})"));
    }
    if (path == "/v2/health/live") return State("live", health.Check("liveness") == Health::Status::kServing);
    if (path == "/v2/health/ready") return State("ready", health.ready());
    if (path.starts_with(kModels)) return AnswerModel(health, path.substr(kModels.size()));
    return Error("404 Not Found", "no such page; there are /v2, /v2/health/live, /v2/health/ready and /v2/models/NAME");
  };
}

}  // namespace softmax::server
