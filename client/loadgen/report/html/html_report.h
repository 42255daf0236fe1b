#pragma once

#include <string>

namespace softmax::client {

// The results document of softmax-loadgen (JSON, "schema": 1) as one HTML page that needs nothing else: no network, no
// font, no script but its own. Light and dark, wide and narrow, printable.
//
// What the page reads of the document; whatever is missing or null is left out or shown as a dash:
//   tool {version, command}, settings {key: value}, search {slo_us, percentile, rate_per_s, at_upper_bound,
//   generator_limited, stopped, steps [{...}]},
//   runs [{name, loop "open" or "closed", offered_per_s, achieved_per_s, goodput_per_s, gb_per_s, duration_s, slo_us,
//          latency, service_time, lag {count, mean_us, min_us, max_us, percentiles [{p, us}]},
//          errors and warmup_errors {code: n}, sent, dropped, late, wrong, verified, verdicts [text],
//          timeline [{t_s, sent, answered, errors, p50_us, p99_us}], counts of the interval that ends at t_s,
//          generator {cpu_cores, busiest_thread, limited, why}, server as client/loadgen/scrape/server_metrics.h has
//          it, classes [{name, achieved_per_s, gb_per_s, latency}], within_slo, first_error, first_wrong, server_cores,
//          machine_busy, interrupted, complete}]; runs of one name are repeats,
//   summary [{name, repeats, achieved_per_s and goodput_per_s {mean, ci95}, percentiles [{p, mean_us, ci95_us}]}]
//
// Or a comparison, as client/loadgen/compare has it, in place of runs.
std::string HtmlReport(const std::string& results_json);

}  // namespace softmax::client
