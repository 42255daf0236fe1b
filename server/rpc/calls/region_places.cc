#include "server/rpc/calls/region_places.h"

#include <absl/strings/str_cat.h>

namespace softmax::server {
namespace {

struct Part {
  const char* name;
  const WirePlace& place;
  std::uint64_t bytes;
};

// `begin`: where the part begins.
absl::Status FindPart(const Part& part, const RegionRegistry& regions, std::uint32_t thread,
                      std::shared_ptr<const Region>* held, std::byte** begin, int* device) {
  const std::shared_ptr<const Region> region = regions.Find(thread, part.place.region);
  if (region == nullptr) {
    return absl::NotFoundError(absl::StrCat(part.name,
                                            ".region: names no region that is there; must be the token of a "
                                            "region whose connection is open"));
  }
  const std::uint64_t offset = part.place.offset;
  if (part.bytes > region->bytes() || offset > region->bytes() - part.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(part.name, ".offset: is ", offset, ", of ", part.bytes,
                                                   " bytes; must end within the region's ", region->bytes(), " bytes"));
  }
  if (region->device() != Region::kHost) {
    if (*device != Region::kHost && *device != region->device()) {
      return absl::InvalidArgumentError(absl::StrCat(part.name, ".region: is of device ", region->device(),
                                                     "; must be of device ", *device, ", as the request's others"));
    }
    *device = region->device();
  }
  *begin = region->memory() + offset;
  *held = region;
  return absl::OkStatus();
}

}  // namespace

absl::Status FindPlaces(const DecodedRequest& request, const RegionRegistry* regions, std::uint32_t thread,
                        RegionPlaces* places) {
  const TensorSpec& spec = request.spec;
  if (!spec.in_regions()) return absl::OkStatus();
  if (regions == nullptr) return absl::InternalError("input.place: was taken by a server that has no regions");
  absl::Status status;
  std::byte* input = nullptr;
  if (spec.input_in_region) {
    status = FindPart({"input.place", request.input_place, spec.input_bytes()}, *regions, thread, &places->held[0],
                      &input, &places->device);
    places->input = input;
  }
  if (status.ok() && spec.output_in_region) {
    status = FindPart({"output_place", request.output_place, spec.tensor_bytes()}, *regions, thread, &places->held[1],
                      &places->output, &places->device);
  }
  if (status.ok() && spec.summary_in_region) {
    const std::uint64_t bytes = spec.summary_layout().end;
    status = FindPart({"summary_place", request.summary_place, bytes}, *regions, thread, &places->held[2],
                      &places->summary, &places->device);
  }
  return status;
}

}  // namespace softmax::server
