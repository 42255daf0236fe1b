#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics/metrics.h"
#include "server/metrics/nvml.h"
#include "server/metrics/process_stats.h"
#include "server/metrics/thread_counters.h"

// The names, labels, units and help texts of everything that is counted here or read of the process and its GPUs; those
// of what the server's parts have stand in server/app/gauges.cc. Dashboards and alerts rest on them: they do not
// change.
namespace softmax::server {

using Families = std::vector<prometheus::MetricFamily>;

// A family without readings is left out: what is not known is absent, never 0. The name of a counter ends in _total.
void AddFamily(const char* name, const char* help, const Readings& readings, Families* out);

void AddRequestFamilies(const CounterTotals& totals, Families* out);
void AddBatchFamilies(const CounterTotals& totals, Families* out);
void AddBuildFamilies(const Metrics::Options& options, Families* out);
void AddProcessFamilies(const ProcessStats& stats, Families* out);
// Nothing at all without GPUs.
void AddGpuFamilies(const std::vector<GpuStats>& gpus, Families* out);

}  // namespace softmax::server
