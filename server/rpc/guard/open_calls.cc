#include "server/rpc/guard/open_calls.h"

#include <algorithm>

namespace softmax::server {

std::vector<OpenCalls::Call>::iterator OpenCalls::Find(std::uint32_t stream) {
  // Most often it is the newest.
  if (!calls_.empty() && calls_.back().stream == stream) return std::prev(calls_.end());
  const auto at = std::lower_bound(calls_.begin(), calls_.end(), stream,
                                   [](const Call& call, std::uint32_t wanted) { return call.stream < wanted; });
  return at != calls_.end() && at->stream == stream ? at : calls_.end();
}

void OpenCalls::Begin(std::uint32_t stream, bool brings_tensors, std::uint32_t weight) {
  calls_.push_back({.stream = stream, .weight = weight, .brings_tensors = brings_tensors});
  waiting_ += weight;
}

void OpenCalls::End(std::uint32_t stream) {
  const auto call = Find(stream);
  if (call == calls_.end()) return;
  if (call->waits) waiting_ -= call->weight;
  calls_.erase(call);
}

bool OpenCalls::TakePrefix(Call* call, std::span<char>* bytes) {
  char* const begin = bytes->data();
  const std::uint8_t had = call->prefix_bytes;
  while (call->prefix_bytes < kPrefixBytes && !bytes->empty()) {
    if (call->prefix_bytes > 0) call->claimed = call->claimed << 8 | static_cast<std::uint8_t>(bytes->front());
    ++call->prefix_bytes;
    *bytes = bytes->subspan(1);
  }
  if (call->prefix_bytes < kPrefixBytes) return true;
  call->left = call->claimed;
  const std::uint64_t most = call->brings_tensors ? limits_.tensor_message_bytes : limits_.control_message_bytes;
  if (call->claimed <= most) return true;
  if (had > 0) return false;
  for (int i = 1; i < kPrefixBytes; ++i) begin[i] = 0;
  begin[kPrefixBytes - 1] = kCutMessageBytes;
  call->left = kCutMessageBytes;
  call->is_cut = true;
  return true;
}

bool OpenCalls::Take(std::uint32_t stream, std::span<char> bytes) {
  const auto call = Find(stream);
  if (call == calls_.end()) return true;
  while (!bytes.empty() && !call->was_cut) {
    if (call->prefix_bytes < kPrefixBytes) {
      if (!TakePrefix(&*call, &bytes)) return false;
      if (call->prefix_bytes < kPrefixBytes) return true;
    }
    const std::span<char> piece = bytes.first(std::min<std::size_t>(call->left, bytes.size()));
    if (call->is_cut) {
      const auto mark = CutMessage(call->claimed);
      std::copy_n(mark.end() - call->left, piece.size(), piece.begin());
    }
    call->left -= static_cast<std::uint32_t>(piece.size());
    bytes = bytes.subspan(piece.size());
    if (call->left > 0) return true;
    if (call->waits) waiting_ -= call->weight;
    call->waits = false;
    call->was_cut = call->is_cut;
    call->prefix_bytes = 0;
    call->claimed = 0;
  }
  return true;
}

}  // namespace softmax::server
