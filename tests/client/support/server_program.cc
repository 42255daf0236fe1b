#include "tests/client/support/server_program.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "client/softmax_client/softmax_client.h"
#include "tests/support/loopback.h"

namespace softmax::client {

ServerProgram::ServerProgram(const std::string& address, int delay_ms) : address_(address), delay_ms_(delay_ms) {
  Start();
}

ServerProgram::~ServerProgram() { Kill(); }

void ServerProgram::Kill() {
  if (program_ == nullptr) return;
  program_->Signal(SIGKILL);
  program_.reset();
}

void ServerProgram::Stop() { program_->Stop(); }

void ServerProgram::Start() {
  program_ =
      std::make_unique<Program>(SOFTMAX_FAKE_SERVER, std::vector<std::string>{address_, std::to_string(delay_ms_)});
  const auto client = Client::Create({.target = address_});
  const absl::Status status = (*client)->WaitForConnection(std::chrono::seconds(60));
  EXPECT_TRUE(status.ok()) << status;
}

int ServerProgram::connections() const {
  const std::string said = program_->Out();
  const std::size_t at = said.rfind("requests, ");
  return at == std::string::npos ? 0 : std::atoi(said.c_str() + at + std::strlen("requests, "));
}

std::string FreeAddress() {
  const int fd = testing::StreamSocket();
  const int port = testing::BindToLoopback(fd);
  close(fd);
  return "127.0.0.1:" + std::to_string(port);
}

}  // namespace softmax::client
