#include "server/config/trace_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "server/config/check.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class TraceSettingsTest : public ::testing::Test {
 protected:
  ~TraceSettingsTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    set_.insert(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  TraceSettings Settings() {
    const auto settings = TraceSettingsOf(config_);
    EXPECT_TRUE(settings.ok()) << settings.status();
    return settings.ok() ? *settings : TraceSettings();
  }
  std::string Problem() { return std::string(CheckConfig(config_, 1 << 20).message()); }

  Config config_;

 private:
  std::set<std::string> set_;
};

TEST_F(TraceSettingsTest, NothingIsSentUnlessAskedFor) {
  EXPECT_EQ(Settings().target, "");
  Set("OTEL_EXPORTER_OTLP_ENDPOINT", "");
  EXPECT_EQ(Settings().target, "");
  Set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
  EXPECT_EQ(Settings().target, "collector:4317");
  config_.trace_endpoint = "none";
  EXPECT_EQ(Settings().target, "");
}

TEST_F(TraceSettingsTest, TheNearerSettingGoesFirst) {
  Set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1");
  Set("OTEL_EXPORTER_OTLP_TIMEOUT", "1500");
  Set("OTEL_EXPORTER_OTLP_HEADERS", "a=1");
  EXPECT_EQ(Settings().timeout, std::chrono::milliseconds(1500));
  Set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/");
  Set("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "20");
  Set("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Bearer%20x, b = 2");
  const TraceSettings settings = Settings();
  EXPECT_EQ(settings.target, "traces:4317");
  EXPECT_TRUE(settings.tls);
  EXPECT_EQ(settings.timeout, std::chrono::milliseconds(20));
  EXPECT_THAT(settings.headers, UnorderedElementsAre(Pair("authorization", "Bearer x"), Pair("b", "2")));
  config_.trace_endpoint = "http://[::1]:9";
  EXPECT_EQ(Settings().target, "[::1]:9");
  EXPECT_FALSE(Settings().tls);
}

TEST_F(TraceSettingsTest, TheServiceHasAName) {
  config_.trace_endpoint = "http://collector";
  EXPECT_THAT(Settings().resource, UnorderedElementsAre(Pair("service.name", "softmax-server")));
  Set("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,zone=a%2Cb");
  EXPECT_THAT(Settings().resource, UnorderedElementsAre(Pair("service.name", "mine"), Pair("zone", "a,b")));
  Set("OTEL_SERVICE_NAME", "yours");
  EXPECT_THAT(Settings().resource, UnorderedElementsAre(Pair("service.name", "yours"), Pair("zone", "a,b")));
}

TEST_F(TraceSettingsTest, WhatIsWrongIsNamed) {
  for (const char* bad :
       {"collector:4317", "http://", "http://:1", "http://a:0", "http://a:x", "http://a:1/v1/traces"}) {
    config_.trace_endpoint = bad;
    EXPECT_THAT(Problem(), HasSubstr("--trace-endpoint=" + std::string(bad) + ": want http://host:port")) << bad;
  }
  config_.trace_endpoint = "http://collector";
  for (const char* bad : {"1.1", "-0.1", "x", "nan"}) {
    config_.trace_ratio = bad;
    EXPECT_THAT(Problem(), HasSubstr("--trace-ratio=" + std::string(bad) + ": want a number from 0 to 1"));
  }
  config_.trace_ratio = "0.5";
  EXPECT_EQ(Problem(), "");
  config_.trace_endpoint = "none";
  EXPECT_THAT(Problem(), HasSubstr("needs --trace-endpoint"));
  config_.trace_endpoint = "auto";
  Set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector");
  const struct {
    const char* name;
    const char* value;
    const char* said;
  } cases[] = {
      {"OTEL_EXPORTER_OTLP_TIMEOUT", "0", "OTEL_EXPORTER_OTLP_TIMEOUT=0: want milliseconds"},
      {"OTEL_EXPORTER_OTLP_HEADERS", "secret", "OTEL_EXPORTER_OTLP_HEADERS: want key=value"},
      {"OTEL_EXPORTER_OTLP_HEADERS", "=1", "OTEL_EXPORTER_OTLP_HEADERS: want key=value"},
      {"OTEL_EXPORTER_OTLP_HEADERS", "a b=1", "OTEL_EXPORTER_OTLP_HEADERS: a b is no header"},
      {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: spans are sent by"},
      {"OTEL_RESOURCE_ATTRIBUTES", "a=%zz", "OTEL_RESOURCE_ATTRIBUTES=a=%zz: want key=value"},
  };
  for (const auto& c : cases) {
    Set(c.name, c.value);
    EXPECT_THAT(Problem(), HasSubstr(c.said));
    Set(c.name, "");
  }
}

}  // namespace
}  // namespace softmax::server
