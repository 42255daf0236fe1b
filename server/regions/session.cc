#include "server/regions/session.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "softmax/v1/regions.pb.h"

namespace softmax::server {
namespace {

std::string_view View(const RegionToken& token) { return {reinterpret_cast<const char*>(token.data()), token.size()}; }

}  // namespace

RegionAnswer AnswerOf(const RegionRefusal& refusal) {
  v1::RegionReply reply;
  reply.mutable_status()->set_code(static_cast<int>(kRegionRefusals[refusal.reason].code));
  reply.mutable_status()->set_message(refusal.message);
  return {reply.SerializeAsString(), -1, refusal.reason};
}

RegionSession::~RegionSession() {
  for (const auto& [token, region] : regions_) registry_.Remove(token);
}

RegionAnswer RegionSession::Answer(std::string_view packet, bool draining) {
  v1::RegionRequest request;
  if (!request.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) {
    return AnswerOf({RegionRefusal::kMalformed, "the packet is no RegionRequest"});
  }
  switch (request.request_case()) {
    case v1::RegionRequest::kAllocate: {
      if (draining) return AnswerOf({RegionRefusal::kUnavailable, "the server is draining"});
      const v1::AllocateRegion& allocate = request.allocate();
      return Allocate(allocate.memory(), allocate.bytes(),
                      allocate.has_device() ? std::optional(allocate.device()) : std::nullopt);
    }
    case v1::RegionRequest::kFree:
      return Free(request.free().token());
    case v1::RegionRequest::REQUEST_NOT_SET:
      break;
  }
  return AnswerOf({RegionRefusal::kInvalid, "request: neither allocate nor free is set"});
}

RegionAnswer RegionSession::Allocate(int memory, std::uint64_t bytes, std::optional<std::uint32_t> wanted) {
  if (memory != v1::REGION_MEMORY_HOST && memory != v1::REGION_MEMORY_DEVICE) {
    return AnswerOf({RegionRefusal::kInvalid, absl::StrCat("allocate.memory=", memory, ": host is 1, device 2")});
  }
  if (bytes == 0) return AnswerOf({RegionRefusal::kInvalid, "allocate.bytes=0: must be above 0"});
  int device = Region::kHost;
  if (memory == v1::REGION_MEMORY_DEVICE) {
    if (wanted && *wanted >= static_cast<std::uint32_t>(budget_.devices())) {
      return AnswerOf({RegionRefusal::kInvalid,
                       absl::StrCat("allocate.device=", *wanted, ": there are ", budget_.devices(), " devices")});
    }
    device = wanted ? static_cast<int>(*wanted) : budget_.LeastUsedDevice();
  }
  if (budget_.limits(device).all == 0 || source_.shared_page(device) == 0) {
    return AnswerOf(
        {RegionRefusal::kUnsupported,
         absl::StrCat("allocate.memory=", memory, ": this server shares none (--regions-",
                      device < 0 ? "bytes" : "device-bytes", "=", budget_.limits(device).all, ", or its backend)")});
  }
  auto result = store_.Make(share_, device, bytes);
  if (const auto* refusal = std::get_if<RegionRefusal>(&result)) return AnswerOf(*refusal);
  const RegionStore::Made& made = std::get<RegionStore::Made>(result);
  registry_.Add(made.region);
  regions_.emplace(made.region->token(), made.region);
  v1::RegionReply reply;
  reply.mutable_status();
  v1::Region& region = *reply.mutable_region();
  region.set_token(std::string(View(made.region->token())));
  region.set_bytes(made.region->bytes());
  region.set_memory(static_cast<v1::RegionMemory>(memory));
  if (device != Region::kHost) {
    region.set_device(static_cast<std::uint32_t>(device));
    const auto uuid = source_.device_uuid(device);
    region.set_device_uuid(std::string(uuid.begin(), uuid.end()));
  }
  return {reply.SerializeAsString(), made.descriptor, std::nullopt};
}

RegionAnswer RegionSession::Free(const std::string& token) {
  RegionToken key;
  if (token.size() != key.size()) {
    return AnswerOf(
        {RegionRefusal::kInvalid, absl::StrCat("free.token: has ", token.size(), " bytes; a token has ", key.size())});
  }
  std::copy(token.begin(), token.end(), key.begin());
  const auto found = regions_.find(key);
  if (found == regions_.end()) {
    return AnswerOf({RegionRefusal::kNotFound, "free.token: this connection has no such region"});
  }
  registry_.Remove(key);
  regions_.erase(found);
  v1::RegionReply reply;
  reply.mutable_status();
  return {reply.SerializeAsString(), -1, std::nullopt};
}

}  // namespace softmax::server
