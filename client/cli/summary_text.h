#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "client/cli/cli_options.h"
#include "client/softmax_client/types.h"

namespace softmax::client {

// The file's lines; one at the end of the file that is empty does not count. An empty path: none.
absl::StatusOr<std::vector<std::string>> ReadLabels(const std::string& path);

// The options' indices, once for each row.
std::vector<std::int32_t> IndicesOf(const CliOptions& options, std::size_t rows);

// What was asked for, in lines of tab-separated columns: row, index or name of a number, value, and the index's label
// if there is one.
std::string SummaryText(const CliOptions& options, const Summary& summary, std::size_t rows, bool is_double,
                        const std::vector<std::string>& labels);

}  // namespace softmax::client
