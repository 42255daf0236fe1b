#pragma once

#include <vector>

#include "server/metrics/families.h"
#include "server/metrics/nvml.h"

namespace softmax::server {

// Nothing at all without GPUs.
void AddGpuFamilies(const std::vector<GpuStats>& gpus, Families* out);

}  // namespace softmax::server
