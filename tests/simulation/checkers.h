#pragma once

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/batching/batch.h"
#include "server/metrics/metrics.h"

namespace softmax::simulation {

// The first thing that did not hold.
class Verdict {
 public:
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    if (first_.empty()) first_ = absl::StrCat(parts...);
  }
  template <typename... Parts>
  void Expect(bool holds, const Parts&... parts) {
    if (!holds) [[unlikely]]
      Fail(parts...);
  }
  bool failed() const { return !first_.empty(); }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

// Spans in use are disjoint: the slabs of a batch are nobody else's while a device has it, and those of an answer until
// it was sent; those of a batch that never came back, for ever.
class SpanChecker {
 public:
  SpanChecker(Verdict& verdict, const std::byte* memory, std::uint32_t slab_bytes, std::uint32_t slabs)
      : verdict_(verdict), memory_(memory), slab_bytes_(slab_bytes), slabs_(slabs) {}

  // `user`: the batch's number.
  void Take(const std::byte* begin, std::uint64_t bytes, std::uint32_t user) {
    const std::uint64_t first = SlabOf(begin);
    for (std::uint64_t i = first; i < first + SlabsOf(begin, bytes); ++i) {
      if (i >= slabs_.size()) return verdict_.Fail("spans: slab ", i, " is outside the arena");
      Slab& slab = slabs_[i];
      verdict_.Expect(slab.uses == 0 || slab.user == user, "spans: slab ", i, " is in use by batch ", slab.user,
                      " and by batch ", user);
      slab.user = user;
      ++slab.uses;
    }
  }
  void GiveBack(const std::byte* begin, std::uint64_t bytes) {
    const std::uint64_t first = SlabOf(begin);
    for (std::uint64_t i = first; i < first + SlabsOf(begin, bytes); ++i) --slabs_[i].uses;
  }
  // The batch that used the slab of this byte last.
  std::uint32_t UserAt(const std::byte* place) const { return slabs_[SlabOf(place)].user; }
  std::uint32_t used() const {
    return static_cast<std::uint32_t>(
        std::count_if(slabs_.begin(), slabs_.end(), [](const Slab& slab) { return slab.uses > 0; }));
  }

 private:
  struct Slab {
    std::uint32_t user = 0;
    std::uint32_t uses = 0;
  };
  std::uint64_t SlabOf(const std::byte* place) const {
    return static_cast<std::uint64_t>(place - memory_) / slab_bytes_;
  }
  std::uint64_t SlabsOf(const std::byte* begin, std::uint64_t bytes) const {
    return SlabOf(begin + bytes - 1) - SlabOf(begin) + 1;
  }

  Verdict& verdict_;
  const std::byte* const memory_;
  const std::uint32_t slab_bytes_;
  std::vector<Slab> slabs_;
};

// The counters say what happened.
class CountingRecorder final : public server::Recorder {
 public:
  void RequestFinished(const server::RequestSample&) override {}
  void RequestRefused(server::RefuseReason reason) override { ++refused[static_cast<std::size_t>(reason)]; }
  void BatchFinished(const server::BatchSample& sample) override { batched += sample.requests; }
  void Add(server::Counter, std::uint64_t) override {}

  std::uint64_t refused[16] = {};
  std::uint64_t batched = 0;
};

}  // namespace softmax::simulation
