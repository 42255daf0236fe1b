#pragma once

#include <string>

#include "client/loadgen/compare/comparison.h"

namespace softmax::client {

// For a person.
std::string ComparisonTable(const Comparison& comparison);

// One document (schema 1) with "comparison", which the HTML page reads: differences [{what, before, after}], loads
// [{name, basis, figures [{name, before, after, change, low, high}], classes like loads}],
// notes [text], verdicts [{text, failed}]. Changes are fractions.
std::string ComparisonJson(const std::string& command, const Comparison& comparison);

}  // namespace softmax::client
