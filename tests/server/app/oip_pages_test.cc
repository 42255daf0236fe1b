#include <gtest/gtest.h>

#include <string>

#include "server/app/parts.h"

namespace softmax::server {
namespace {

class OipPagesTest : public ::testing::Test {
 protected:
  // "200 BODY"; empty: the page is not one of these.
  std::string Get(const std::string& path, const std::string& method = "GET") const {
    const std::optional<HttpPage> page = pages_(method, path);
    return page.has_value() ? std::string(page->status).substr(0, 4) + page->body : "";
  }

  Health health_;
  const HttpPages pages_ = OipPages(health_, "1.2.3");
};

TEST_F(OipPagesTest, TellTheServerItsHealthAndItsModels) {
  EXPECT_EQ(Get("/v2/health/live"), "200 {\"live\":true}\n");
  for (const char* const path : {"/v2/health/ready", "/v2/models/softmax/ready"}) {
    health_.SetReady(false);
    EXPECT_EQ(Get(path), "503 {\"ready\":false}\n");
    health_.SetReady(true);
    EXPECT_EQ(Get(path, "HEAD"), "200 {\"ready\":true}\n");
  }
  health_.SetLive(false);
  EXPECT_EQ(Get("/v2/health/live"), "503 {\"live\":false}\n");
  const std::string server = "200 {\"name\":\"softmax-server\",\"version\":\"1.2.3\",\"extensions\":[]}\n";
  EXPECT_EQ(Get("/v2"), server);
  EXPECT_EQ(Get("/v2/"), server);
  const std::string model =
      "200 {\"name\":\"softmax_fp16\",\"versions\":[\"1\"],\"platform\":\"softmax\",\"inputs\":[{\"name\":\"X\","
      "\"datatype\":\"FP16\",\"shape\":[-1,-1]}],\"outputs\":[{\"name\":\"Y\",\"datatype\":\"FP16\",\"shape\":[-1,-1]"
      "}]}\n";
  EXPECT_EQ(Get("/v2/models/softmax_fp16"), model);
  EXPECT_EQ(Get("/v2/models/softmax_fp16/versions/1"), model);
}

TEST_F(OipPagesTest, TheRestIsNotFoundOrNotServedOverHttp) {
  for (const char* const path : {"/v2/x", "/v2/models/resnet", "/v2/models/resnet/config"}) {
    EXPECT_EQ(Get(path).substr(0, 4), "404 ") << path;
  }
  // As clients of the protocol over HTTP begin.
  for (const char* const path :
       {"/v2/models/softmax/config", "/v2/models/softmax/versions/1/stats", "/v2/models/softmax/infer",
        "/v2/models/stats", "/v2/repository/index", "/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/status",
        "/v2/cudasharedmemory/region/r/status"}) {
    EXPECT_TRUE(Get(path).starts_with("501 ") && Get(path).find("over gRPC") != std::string::npos) << path;
  }
  EXPECT_EQ(Get("/v2/health/live", "POST").substr(0, 4), "501 ");
  for (const char* const path : {"/", "/metrics", "/v20", "/v3/x"}) EXPECT_EQ(Get(path), "") << path;
}

}  // namespace
}  // namespace softmax::server
