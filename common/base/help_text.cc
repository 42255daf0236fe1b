#include "common/base/help_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace softmax {
namespace {

constexpr std::size_t kFewest = 50;

// Where the text of a line begins: behind the flag and at least two spaces, or where the line begins.
std::size_t TextColumn(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  if (begin == 0) return 0;
  const std::size_t gap = line.find("  ", begin);
  return gap == std::string_view::npos ? begin : std::min(line.find_first_not_of(' ', gap), line.size());
}

void WrapLine(std::string_view line, std::size_t columns, std::string* out) {
  const std::size_t text = TextColumn(line);
  for (std::size_t used = 0; used + line.size() > columns; used = text) {
    const std::size_t least = used == 0 ? text : 0;
    std::size_t end = line.rfind(' ', columns - used);
    // A word that is too long stands out.
    if (end == std::string_view::npos || end <= least) end = line.find(' ', columns - used);
    if (end == std::string_view::npos) break;
    *out += line.substr(0, end);
    *out += '\n' + std::string(text, ' ');
    line.remove_prefix(end + 1);
  }
  *out += line;
  *out += '\n';
}

}  // namespace

std::string WrapHelp(std::string_view text, std::size_t columns) {
  if (columns < kFewest) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    WrapLine(text.substr(0, end), columns, &out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::size_t TerminalColumns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace softmax
