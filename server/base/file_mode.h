#pragma once

#include <sys/stat.h>

#include <cstdio>
#include <string>

namespace softmax::server {

// What is wrong with the mode of a file that holds a secret. Empty: only its user and group may read or write it.
inline std::string OthersProblem(const std::string& path, mode_t mode) {
  if ((mode & S_IRWXO) == 0) return "";
  char shown[8];
  std::snprintf(shown, sizeof(shown), "%04o", mode & 07777u);
  return std::string("its mode ") + shown + " lets others read or write it; chmod o= " + path;
}

}  // namespace softmax::server
