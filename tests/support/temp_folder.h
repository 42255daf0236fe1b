#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace softmax::testing {

// A folder that only we can enter; goes with its content. A child that a test forked leaves it to its parent.
class TempFolder {
 public:
  TempFolder() {
    std::string path = std::filesystem::temp_directory_path() / "softmax-test-XXXXXX";
    path_ = mkdtemp(path.data());
  }
  ~TempFolder() {
    if (getpid() != owner_) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Puts the whole file in place in one step, readable by us alone.
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string next = path(name + ".next");
    {
      std::ofstream file(next);
      file << text;
    }
    chmod(next.c_str(), 0600);
    std::filesystem::rename(next, path(name));
    return path(name);
  }

 private:
  const pid_t owner_ = getpid();
  std::string path_;
};

}  // namespace softmax::testing
