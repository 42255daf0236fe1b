#include "server/execution/quarantined_memory.h"

#include <algorithm>
#include <utility>

namespace softmax::server {

QuarantinedMemory::QuarantinedMemory() : content_(new Content) {
  static auto* const mu = new Mutex;
  static auto* const all = new std::vector<Content*>;
  MutexLock lock(*mu);
  all->push_back(content_);
}

void QuarantinedMemory::Keep(SpanRef span) {
  if (!span) return;
  MutexLock lock(content_->mu);
  content_->spans.push_back(std::move(span));
}

void QuarantinedMemory::Keep(std::unique_ptr<Lane> lane) {
  MutexLock lock(content_->mu);
  content_->lanes.push_back(std::move(lane));
}

std::uint64_t QuarantinedMemory::LargestRun(const std::byte* begin, std::uint64_t bytes) const {
  std::vector<std::pair<const std::byte*, const std::byte*>> kept;
  {
    MutexLock lock(content_->mu);
    for (const SpanRef& span : content_->spans) kept.emplace_back(span.address(), span.address() + span.size());
  }
  std::sort(kept.begin(), kept.end());
  std::uint64_t largest = 0;
  const std::byte* free_from = begin;
  for (const auto& [first, end] : kept) {
    largest = std::max(largest, static_cast<std::uint64_t>(first - free_from));
    free_from = end;
  }
  return std::max(largest, static_cast<std::uint64_t>(begin + bytes - free_from));
}

}  // namespace softmax::server
