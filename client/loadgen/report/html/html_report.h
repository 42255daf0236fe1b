#pragma once

#include <string>

namespace softmax::client {

// The results document of softmax-loadgen (JSON, "schema": 1) as one HTML page that needs nothing else: no network, no
// font, no script but its own. Light and dark, wide and narrow, printable.
//
// What the page reads of the document is what report/result_fields.h and scrape/server_metrics.h list, tool, settings
// and summary; whatever is missing or null is left out or shown as a dash. Runs of one name are repeats. Or a
// comparison, as client/loadgen/compare has it, in place of runs.
std::string HtmlReport(const std::string& results_json);

}  // namespace softmax::client
