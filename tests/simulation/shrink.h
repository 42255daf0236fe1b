#pragma once

#include <functional>

#include "tests/simulation/script.h"

namespace softmax::simulation {

// Takes actions out of a script as long as `fails` says that it still goes wrong: first what comes after, then halves,
// quarters and so on, until no single action can go. `fails` runs the script. About n log n runs at most.
Script Shrink(Script script, const std::function<bool(const Script&)>& fails);

}  // namespace softmax::simulation
