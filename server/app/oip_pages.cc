#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/wire/oip_models.h"
#include "server/app/parts.h"

namespace softmax::server {
namespace {

constexpr std::string_view kModels = "/v2/models/";
constexpr std::string_view kOnlyVersion = "/versions/1";

HttpPage Json(const char* status, std::string body) { return {status, "application/json", std::move(body) + "\n"}; }
HttpPage Error(const char* status, const std::string& words) {
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

HttpPage NotOverHttp() {
  return Error("501 Not Implemented",
               "of the Open Inference Protocol only health and metadata are served over HTTP; call "
               "inference.GRPCInferenceService over gRPC, on the server's own port (perf_analyzer: -i grpc)");
}

// The protocol's other pages, for which any client of HTTP asks sooner or later.
bool IsPageOfProtocol(std::string_view path) {
  constexpr std::string_view kOthers[] = {"/v2/models/stats", "/v2/repository/",         "/v2/logging",
                                          "/v2/trace/",       "/v2/systemsharedmemory/", "/v2/cudasharedmemory/"};
  return std::any_of(std::begin(kOthers), std::end(kOthers),
                     [path](std::string_view other) { return path.starts_with(other); });
}

HttpPage AnswerModel(const Health& health, std::string_view name) {
  const bool asks_ready = TakeEnd("/ready", &name);
  TakeEnd(kOnlyVersion, &name);
  const InferModel* const model = FindInferModel(name, "");
  if (model == nullptr && FindInferModel(name.substr(0, name.find('/')), "") != nullptr) return NotOverHttp();
  if (model == nullptr) {
    return Error("404 Not Found", absl::StrCat("no such model or page; models are ", InferModelNames()));
  }
  return asks_ready ? State("ready", health.ready()) : ModelPage(*model);
}

}  // namespace

HttpPages OipPages(const Health& health, std::string version) {
  return [&health, version = std::move(version)](std::string_view method,
                                                 std::string_view path) -> std::optional<HttpPage> {
    if (path != "/v2" && !path.starts_with("/v2/")) return std::nullopt;
    if ((method != "GET" && method != "HEAD") || IsPageOfProtocol(path)) return NotOverHttp();
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
