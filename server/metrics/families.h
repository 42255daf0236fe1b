#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics/metrics.h"
#include "server/metrics/process_stats.h"
#include "server/metrics/thread_counters.h"

// The names, labels, units and help texts of everything that is published. Dashboards and alerts
// rest on them: they do not change.
namespace softmax::server {

using Families = std::vector<prometheus::MetricFamily>;

void AddRequestFamilies(const CounterTotals& totals, Families* out);
void AddBatchFamilies(const CounterTotals& totals, Families* out);
// A source that is not set is left out, not published as 0; requests in flight are then counted
// from the threads' counters.
void AddGaugeFamilies(const GaugeSources& sources, const CounterTotals& totals, Families* out);
// Of the queue threads: how late they come, and how busy they are.
void AddThreadFamilies(const GaugeSources& sources, const CounterTotals& totals, Families* out);
void AddBuildFamilies(const Metrics::Options& options, Families* out);
void AddProcessFamilies(const ProcessStats& stats, Families* out);

}  // namespace softmax::server
