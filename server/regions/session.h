#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/regions/registry.h"
#include "server/regions/store.h"

namespace softmax::server {

// What a client is answered: a RegionReply.
struct RegionAnswer {
  std::string packet;
  int descriptor = -1;  // to go with it, and to be closed then; -1: none
  std::optional<RegionRefusal::Reason> refusal;
};
RegionAnswer AnswerOf(const RegionRefusal& refusal);

// The regions of one connection, which end with it. One thread.
class RegionSession {
 public:
  RegionSession(RegionStore& store, RegionBudget& budget, SharedMemorySource& source, RegionRegistry& registry)
      : store_(store), budget_(budget), source_(source), registry_(registry) {}
  ~RegionSession();
  RegionSession(const RegionSession&) = delete;
  RegionSession& operator=(const RegionSession&) = delete;

  // `packet`: a RegionRequest. `draining`: nothing is made any more.
  RegionAnswer Answer(std::string_view packet, bool draining);
  bool has_regions() const { return !regions_.empty(); }

 private:
  RegionAnswer Allocate(int memory, std::uint64_t bytes, std::optional<std::uint32_t> device);
  RegionAnswer Free(const std::string& token);

  RegionStore& store_;
  RegionBudget& budget_;
  SharedMemorySource& source_;
  RegionRegistry& registry_;
  const std::shared_ptr<RegionBudget::Share> share_ = std::make_shared<RegionBudget::Share>();
  std::map<RegionToken, std::shared_ptr<const Region>> regions_;
};

}  // namespace softmax::server
