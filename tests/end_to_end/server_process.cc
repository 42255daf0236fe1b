#include "tests/end_to_end/server_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

std::string TemporaryFile() {
  std::string path = ::testing::TempDir() + "softmax-server-log-XXXXXX";
  const int fd = mkstemp(path.data());
  EXPECT_GE(fd, 0);
  close(fd);
  return path;
}

[[noreturn]] void Exec(const std::vector<std::string>& arguments, const std::string& log,
                       std::uint64_t descriptor_limit) {
  const int fd = open(log.c_str(), O_WRONLY | O_APPEND);
  dup2(fd, 1);
  dup2(fd, 2);
  for (int other = 3; other < 1024; ++other) close(other);
  if (descriptor_limit > 0) {
    const rlimit limit{descriptor_limit, descriptor_limit};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  // Settings of whoever runs the tests (SOFTMAX_FUZZ_SECONDS, SOFTMAX_TEST_BACKEND) are none of the server's.
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("SOFTMAX_")) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  execve(argv[0], argv.data(), environment.data());
  _exit(127);
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& flags, std::uint64_t descriptor_limit)
    : ServerProcess(flags, MayFail(), descriptor_limit) {
  if (target_.empty()) throw std::runtime_error("the server does not listen: " + Log());
}

ServerProcess::ServerProcess(const std::vector<std::string>& flags, MayFail, std::uint64_t descriptor_limit)
    : log_path_(TemporaryFile()) {
  const char* const backend = std::getenv("SOFTMAX_TEST_BACKEND");
  const char* const program = std::getenv("SOFTMAX_SERVER");
  std::vector<std::string> arguments = {program != nullptr ? program : SOFTMAX_SERVER_PROGRAM};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const std::string& flag :
       std::vector<std::string>{"--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                                std::string("--backend=") + (backend != nullptr ? backend : "cpu"),
                                "--arena-bytes=64MiB", "--max-request-bytes=16MiB", "--max-response-bytes=16MiB"}) {
    const std::string name = flag.substr(0, flag.find('=') + 1);
    const bool given =
        std::any_of(flags.begin(), flags.end(), [&](const std::string& other) { return other.rfind(name, 0) == 0; });
    if (!given) arguments.push_back(flag);
  }
  pid_ = fork();
  if (pid_ == 0) Exec(arguments, log_path_, descriptor_limit);
  bool listens = false;
  Eventually(
      [&] {
        metrics_ = FindInLog("metrics on ");
        target_ = FindInLog("listening on ");
        listens = Running() && !metrics_.empty() && !target_.empty();
        return listens || ended_;
      },
      std::chrono::minutes(1));
  if (!listens) target_.clear();
  if (listens) books_ = BooksOf(metrics_);
}

ServerProcess::~ServerProcess() {
  if (Running()) {
    if (!told_to_end_) ExpectBooksAsBefore(books_, metrics_);
    kill(pid_, SIGKILL);
    Wait(10000);
  }
  unlink(log_path_.c_str());
}

bool ServerProcess::Running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_ = true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  return !ended_;
}

void ServerProcess::Signal(int number) {
  told_to_end_ = told_to_end_ || number == SIGTERM || number == SIGINT || number == SIGKILL;
  kill(pid_, number);
}

int ServerProcess::Wait(int timeout_ms) {
  Eventually([this] { return !Running(); }, std::chrono::milliseconds(timeout_ms));
  return ended_ ? exit_code_ : -1;
}

void ServerProcess::StandStill(std::chrono::milliseconds time) {
  Signal(SIGSTOP);
  LetPass(time);
  Signal(SIGCONT);
}

std::string ServerProcess::Log() const {
  std::ifstream file(log_path_);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string ServerProcess::FindInLog(const std::string& before) const {
  const std::string log = Log();
  const std::size_t at = log.find(before);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + before.size();
  const std::size_t end = log.find('\n', begin);
  return end == std::string::npos ? "" : log.substr(begin, end - begin);
}

bool ServerProcess::LogComesToHave(const std::string& text) const {
  return Eventually([&] { return Log().find(text) != std::string::npos; });
}

std::int64_t ServerProcess::BytesOf(const std::string& what) const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what)) return std::stoll(line.substr(what.size())) * 1024;
  }
  return 0;
}

}  // namespace softmax::testing
