#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace softmax::client {

struct ProgramResult {
  int exit_code = -1;  // -1: it was killed by a signal
  std::string out;
  std::string err;
};

// A started program, whose output goes to files in the test's folder. Waited for, at the latest, at
// its end.
class Program {
 public:
  Program(const std::string& path, const std::vector<std::string>& arguments, const std::string& standard_input = "");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Signal(int number) const;
  void Stop() const;  // SIGSTOP; returns when the program stands still
  ProgramResult Wait();
  // What it has written so far.
  std::string Out() const;
  std::string Err() const;

 private:
  std::string files_;  // the common beginning of the three files' names
  pid_t pid_ = -1;
};

ProgramResult RunProgram(const std::string& path, const std::vector<std::string>& arguments,
                         const std::string& standard_input = "");

}  // namespace softmax::client
