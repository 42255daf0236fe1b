#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <vector>

namespace softmax::server {

// Descriptors kept open for nothing, so that some can be had when the process has no other left. One thread.
class SpareDescriptors {
 public:
  // For four connections, each with the duplicate that Acceptor keeps.
  static constexpr std::size_t kCount = 8;

  ~SpareDescriptors() {
    while (Free()) continue;
  }

  // Opens those that are missing, as duplicates of `fd`. False: there are still some missing.
  bool Fill(int fd) {
    while (fds_.size() < kCount) {
      const int spare = fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (spare < 0) return false;
      fds_.push_back(spare);
    }
    return true;
  }

  // Closes one. False: none is left.
  bool Free() {
    if (fds_.empty()) return false;
    close(fds_.back());
    fds_.pop_back();
    return true;
  }

 private:
  std::vector<int> fds_;
};

}  // namespace softmax::server
