#include "common/wire/walk.h"

#include <bit>

#include "common/wire/bounds.h"
#include "common/wire/tags.h"

namespace softmax {
namespace {

bool ReadInt32(WireCursor* cursor, std::int32_t* value) {
  std::uint64_t wide;
  if (!cursor->ReadVarint(&wide)) return false;
  *value = static_cast<std::int32_t>(wide);
  return true;
}

bool AddDimension(WireCursor* cursor, RawRequest* request, std::uint64_t value) {
  if (request->rank == kMaxDimensions) return cursor->Fail(WireFault::kManyDimensions, kMaxDimensions);
  if (request->rank < kMaxShapeRank) {
    request->shape[request->rank] = static_cast<std::int64_t>(value);
  }
  ++request->rank;
  return true;
}

void AddLength(RawRequest* request, std::uint64_t value) {
  const auto length = static_cast<std::uint32_t>(value);
  if (request->lengths_count == 0 || length > request->lengths_largest) {
    request->lengths_largest = length;
    request->lengths_largest_at = request->lengths_count;
  }
  ++request->lengths_count;
}

bool WalkPlace(WireCursor* cursor, int depth, RawRequest* request, RawPlace* place) {
  std::uint64_t value;
  if (!cursor->ReadLength(&value)) return false;
  const std::uint64_t outer = cursor->Narrow(value);
  place->is_set = true;
  request->in_place = place;
  while (!cursor->AtLimit()) {
    if (!cursor->ReadTag(&request->tag)) return false;
    switch (request->tag) {
      case kPlaceRegion:
        if (!cursor->ReadLength(&value)) return false;
        place->region_size = value;
        if (value == kTokenBytes) {
          cursor->Read(value, place->region.data());
        } else if (!cursor->Skip(value)) {
          return false;
        }
        break;
      case kPlaceOffset:
        if (!cursor->ReadVarint(&place->offset)) return false;
        break;
      default:
        if (!cursor->SkipField(request->tag, depth - 1)) return false;
    }
  }
  request->in_place = nullptr;
  cursor->Widen(outer);
  return true;
}

bool WalkTensor(WireCursor* cursor, int depth, RawRequest* request) {
  while (!cursor->AtLimit()) {
    std::uint64_t value;
    if (!cursor->ReadTag(&request->tag)) return false;
    switch (request->tag) {
      case kTensorDtype:
        if (!ReadInt32(cursor, &request->dtype)) return false;
        break;
      case kTensorShapePacked:
        if (!ReadPacked(cursor, [&](std::uint64_t v) { return AddDimension(cursor, request, v); })) return false;
        break;
      case kTensorShape:
        cursor->GiveFieldBack();
        if (!cursor->ReadVarint(&value) || !AddDimension(cursor, request, value)) return false;
        break;
      case kTensorPlace:
        if (!WalkPlace(cursor, depth, request, &request->input_place)) return false;
        break;
      case kTensorData:
        if (!cursor->ReadLength(&value)) return false;
        request->data_offset = cursor->position();
        request->data_size = value;
        if (!cursor->Skip(value)) return false;
        break;
      default:
        if (!cursor->SkipField(request->tag, depth)) return false;
    }
  }
  return true;
}

bool WalkInput(WireCursor* cursor, int depth, RawRequest* request) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  const std::uint64_t outer = cursor->Narrow(length);
  request->has_input = true;
  request->in_input = true;
  if (!WalkTensor(cursor, depth - 1, request)) return false;
  request->in_input = false;
  cursor->Widen(outer);
  return true;
}

bool ReadBool(WireCursor* cursor, bool* value) {
  std::uint64_t wide;
  if (!cursor->ReadVarint(&wide)) return false;
  *value = wide != 0;
  return true;
}

bool WalkSummary(WireCursor* cursor, int depth, RawRequest* request) {
  while (!cursor->AtLimit()) {
    std::uint64_t value;
    if (!cursor->ReadTag(&request->tag)) return false;
    switch (request->tag) {
      case kSummaryRequestTopK:
        if (!cursor->ReadVarint(&value)) return false;
        request->top_k = static_cast<std::uint32_t>(value);
        break;
      case kSummaryRequestIndices:
        if (!cursor->ReadLength(&value)) return false;
        request->indices_size = value;
        request->indices_begin = *cursor;
        if (!cursor->SpendBytes(value) || !cursor->Skip(value)) return false;
        break;
      case kSummaryRequestLogSumExp:
        if (!ReadBool(cursor, &request->log_sum_exp)) return false;
        break;
      case kSummaryRequestEntropy:
        if (!ReadBool(cursor, &request->entropy)) return false;
        break;
      case kSummaryRequestFull:
        if (!ReadBool(cursor, &request->full)) return false;
        break;
      default:
        if (!cursor->SkipField(request->tag, depth)) return false;
    }
  }
  return true;
}

bool WalkSummaryField(WireCursor* cursor, int depth, RawRequest* request) {
  std::uint64_t length;
  if (!cursor->ReadLength(&length)) return false;
  const std::uint64_t outer = cursor->Narrow(length);
  request->has_summary = true;
  request->in_summary = true;
  if (!WalkSummary(cursor, depth - 1, request)) return false;
  request->in_summary = false;
  cursor->Widen(outer);
  return true;
}

bool WalkLengths(WireCursor* cursor, RawRequest* request) {
  if (request->lengths_count == 0) {
    request->lengths_begin = *cursor;
    request->lengths_tag = request->tag;
  }
  if (request->tag == kRequestLengthsPacked) {
    return ReadPacked(cursor, [&](std::uint64_t v) { AddLength(request, v); });
  }
  cursor->GiveFieldBack();
  std::uint64_t value;
  if (!cursor->ReadVarint(&value)) return false;
  AddLength(request, value);
  return true;
}

bool WalkField(WireCursor* cursor, int depth, RawRequest* request) {
  std::uint64_t value;
  switch (request->tag) {
    case kRequestId:
      if (!cursor->ReadVarint(&request->id)) return false;
      request->has_id = true;
      return true;
    case kRequestOperation:
      return ReadInt32(cursor, &request->operation);
    case kRequestAxis:
      request->has_axis = true;
      return ReadInt32(cursor, &request->axis);
    case kRequestScale:
      if (!cursor->ReadFixed64(&value)) return false;
      request->has_scale = true;
      request->scale = std::bit_cast<double>(value);
      return true;
    case kRequestOutputDtype:
      return ReadInt32(cursor, &request->output_dtype);
    case kRequestLengths:
    case kRequestLengthsPacked:
      return WalkLengths(cursor, request);
    case kRequestTimeout:
      if (!cursor->ReadVarint(&value)) return false;
      request->timeout_us = static_cast<std::uint32_t>(value);
      return true;
    case kRequestSummary:
      return WalkSummaryField(cursor, depth, request);
    case kRequestOutputPlace:
      return WalkPlace(cursor, depth, request, &request->output_place);
    case kRequestSummaryPlace:
      return WalkPlace(cursor, depth, request, &request->summary_place);
    case kRequestInput:
      return WalkInput(cursor, depth, request);
    default:
      return cursor->SkipField(request->tag, depth);
  }
}

}  // namespace

bool WalkRequest(WireCursor* cursor, int depth, RawRequest* request) {
  while (!cursor->AtLimit()) {
    if (!cursor->ReadTag(&request->tag)) return false;
    if (!WalkField(cursor, depth, request)) return false;
  }
  return true;
}

void ReadIndices(const RawRequest& request, void* out) {
  WireCursor cursor = request.indices_begin;
  cursor.Read(request.indices_size, out);
}

void ReadLengths(const RawRequest& request, std::uint32_t* out) {
  WireCursor cursor = request.lengths_begin;
  cursor.LiftLimits();
  std::uint32_t tag = request.lengths_tag;
  const std::uint32_t* const end = out + request.lengths_count;
  const auto append = [&](std::uint64_t value) { *out++ = static_cast<std::uint32_t>(value); };
  // All of this has been walked, so that nothing fails.
  for (bool good = true; good;) {
    if (tag == kRequestLengthsPacked) {
      good = ReadPacked(&cursor, append);
    } else if (tag == kRequestLengths) {
      std::uint64_t value = 0;
      good = cursor.ReadVarint(&value);
      append(value);
    } else {
      good = cursor.SkipField(tag, kWireDepth);
    }
    if (out == end) return;
    good = good && cursor.ReadTag(&tag);
  }
}

}  // namespace softmax
