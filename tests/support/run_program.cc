#include "tests/support/run_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

namespace softmax::client {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Program::Program(const std::string& path, const std::vector<std::string>& arguments,
                 const std::string& standard_input) {
  static std::atomic<int> count = 0;
  files_ = ::testing::TempDir() + "program_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  std::ofstream(files_ + ".in", std::ios::binary) << standard_input;

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int write_flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 0, (files_ + ".in").c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (files_ + ".out").c_str(), write_flags, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (files_ + ".err").c_str(), write_flags, 0600);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int error = posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    ADD_FAILURE() << "cannot start " << path;
  }
}

Program::~Program() {
  Wait();
  for (const char* end : {".in", ".out", ".err"}) unlink((files_ + end).c_str());
}

void Program::Signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

void Program::Stop() const {
  if (pid_ <= 0) return;
  kill(pid_, SIGSTOP);
  int status = 0;
  waitpid(pid_, &status, WUNTRACED);
}

std::string Program::Out() const { return ReadFile(files_ + ".out"); }

std::string Program::Err() const { return ReadFile(files_ + ".err"); }

ProgramResult Program::Wait() {
  ProgramResult result;
  if (pid_ <= 0) return result;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.out = Out();
  result.err = Err();
  return result;
}

ProgramResult RunProgram(const std::string& path, const std::vector<std::string>& arguments,
                         const std::string& standard_input) {
  Program program(path, arguments, standard_input);
  return program.Wait();
}

}  // namespace softmax::client
