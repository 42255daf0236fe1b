#include "client/loadgen/options.h"
#include "client/loadgen/run.h"
#include "server/base/process_settings.h"

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  int exit_code = 0;
  const auto options = softmax::client::ParseCommandLine(argc, argv, &exit_code);
  if (!options) return exit_code;
  return softmax::client::RunLoad(*options);
}
