#include "client/softmax_client/header_text.h"

#include <algorithm>
#include <string>

namespace softmax::client {
namespace {

bool IsVisible(char c) { return c > ' ' && c <= '~'; }

const char* KindOf(char c) {
  if (c == '\r') return "a carriage return";
  if (c == '\n') return "a line feed";
  if (c == ' ') return "a blank";
  const auto byte = static_cast<unsigned char>(c);
  return byte < ' ' || byte == 0x7f ? "a control character" : "not ASCII";
}

}  // namespace

absl::Status CheckHeaderText(std::string_view field, std::string_view text) {
  if (text.empty()) return absl::InvalidArgumentError(std::string(field) + ": is empty");
  const auto bad = std::find_if_not(text.begin(), text.end(), IsVisible);
  if (bad == text.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(field) + ": character " + std::to_string(bad - text.begin() + 1) +
                                    " is " + KindOf(*bad) + "; only visible ASCII characters can be sent");
}

}  // namespace softmax::client
