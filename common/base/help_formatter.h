#pragma once

namespace CLI {
class App;
}

namespace softmax {

// --help then shows a flag as --flag KIND=DEFAULT, as our manual pages read it, whichever CLI11 it is built with: 2.4
// and later ones would write --flag KIND [DEFAULT].
void ShowDefaultsAsOurs(CLI::App* app);

}  // namespace softmax
