#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "server/metrics/metrics.h"

namespace softmax::server {
namespace {

// What promtool says about `text`; its exit code in `*code`.
std::string CheckMetrics(const std::string& text, int* code) {
  std::string path = ::testing::TempDir() + "metrics-XXXXXX";
  const int fd = mkstemp(path.data());
  EXPECT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << text;
  const std::string command = "promtool check metrics < " + path + " > " + path + ".out 2>&1";
  const int status = std::system(command.c_str());
  *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(path + ".out");
  std::string said((std::istreambuf_iterator<char>(file)), {});
  unlink(path.c_str());
  unlink((path + ".out").c_str());
  return said;
}

bool HavePromtool() { return std::system("command -v promtool > /dev/null 2>&1") == 0; }

TEST(Promtool, AcceptsEverythingThatIsPublished) {
  if (!HavePromtool()) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  Metrics::Options options;
  options.version = "1.2.3";
  options.commit = "abcdef";
  options.backend = "cuda";
  options.settings = {{"max_batch_bytes", 1048576}};
  const auto metrics = Metrics::Create(std::move(options));
  Recorder* recorder = metrics->AddRecorder();
  RequestSample sample;
  sample.ran = true;
  recorder->RequestFinished(sample);
  recorder->BatchFinished({});
  const auto one = []() -> Readings { return {{{}, 1}}; };
  metrics->SetGauges({{"softmax_ready", "A gauge.", one}, {"softmax_connections_ended_total", "A counter.", one}});
  const std::string text = metrics->Render();
  int code = -1;
  const std::string said = CheckMetrics(text, &code);
  EXPECT_EQ(code, 0) << said;
  EXPECT_EQ(said, "");
}

TEST(Promtool, WouldComplain) {
  if (!HavePromtool()) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  int code = -1;
  CheckMetrics("# TYPE softmax_bad counter\nsoftmax_bad 1\n", &code);
  EXPECT_NE(code, 0);
}

}  // namespace
}  // namespace softmax::server
