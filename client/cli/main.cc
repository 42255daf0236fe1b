#include <absl/strings/str_format.h>

#include <cstdio>
#include <utility>

#include "client/cli/files.h"
#include "client/cli/health.h"
#include "client/cli/options.h"
#include "client/softmax_client/softmax_client.h"
#include "server/base/process_settings.h"

namespace softmax::client {
namespace {

// Prints the one line about what went wrong, and says how to exit.
int Report(const absl::Status& status) {
  std::fprintf(stderr, "softmax-client: %s\n", std::string(status.message()).c_str());
  if (status.code() == absl::StatusCode::kInvalidArgument) return 2;
  return status.code() == absl::StatusCode::kUnavailable ? 3 : 1;
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const CliOptions& options) {
  ClientOptions wanted{
      .target = options.address, .deadline = options.timeout, .retry = {.max_attempts = options.attempts}};
  wanted.tls = options.tls;
  wanted.authority = options.authority;
  if (!options.token.empty()) wanted.bearer_token = [token = options.token] { return token; };
  auto client = Client::Create(std::move(wanted));
  if (!client.ok()) return client;
  const absl::Status connected = (*client)->WaitForConnection(options.timeout);
  if (!connected.ok()) return connected;
  return client;
}

int PrintInfo(const CliOptions& options) {
  auto client = Connect(options);
  if (!client.ok()) return Report(client.status());
  const auto info = (*client)->GetServerInfo();
  if (!info.ok()) return Report(info.status());
  std::string text = absl::StrFormat("version    %s (%s)\nbackend    %s\n", info->version, info->build, info->backend);
  for (const std::string& device : info->devices) text += "device     " + device + "\n";
  text += "dtypes    ";
  for (const DataType dtype : info->dtypes) text += " " + std::string(NameOf(dtype));
  text += "\noperations";
  for (const Operation operation : info->operations) text += " " + std::string(NameOf(operation));
  const ServerLimits& limits = info->limits;
  text += absl::StrFormat(
      "\nlimits     request %d bytes, answer %d bytes, rank %d, rows %d, columns %d\n"
      "           stream: %d requests in a message, %d in flight\n",
      limits.max_request_bytes, limits.max_response_bytes, limits.max_rank, limits.max_rows, limits.max_columns,
      limits.max_requests_per_stream_message, limits.max_in_flight_per_stream);
  if (info->degraded) text += "degraded   a device was lost\n";
  for (const std::string& device : info->lost_devices) text += "lost       " + device + "\n";
  if (info->unsafe_testing) text += "unsafe     test switches are on: answers may be wrong\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

int RunSoftmax(const CliOptions& options) {
  auto loaded = LoadArray(options.input, options.format);
  if (!loaded.ok()) return Report(loaded.status());
  const DataType native = loaded->format == Format::kNpy ? loaded->array.dtype : DataType::kFloat32;
  const Array input = Converted(loaded->array, options.dtype.value_or(native));
  auto client = Connect(options);
  if (!client.ok()) return Report(client.status());
  SoftmaxOptions softmax;
  softmax.operation = options.operation.value_or(Operation::kSoftmax);
  softmax.axis = options.axis;
  softmax.scale = options.scale;
  softmax.output_dtype = options.output_dtype;
  softmax.lengths = options.lengths;
  const auto answer = (*client)->Softmax({input.dtype, input.shape, input.data}, softmax);
  if (!answer.ok()) return Report(answer.status());
  const Array output{answer->dtype(), answer->shape(), {answer->data().begin(), answer->data().end()}};
  const absl::Status saved = SaveArray(options.output, loaded->format, output);
  return saved.ok() ? 0 : Report(saved);
}

}  // namespace
}  // namespace softmax::client

int main(int argc, char** argv) {
  using namespace softmax::client;
  softmax::ApplyProcessSettings();
  int exit_code = 0;
  const auto options = ParseCliCommandLine(argc, argv, &exit_code);
  if (!options) return exit_code;
  switch (options->action) {
    case Action::kInfo:
      return PrintInfo(*options);
    case Action::kHealth:
      return CheckHealth(*options);
    case Action::kSoftmax:
      return RunSoftmax(*options);
  }
  return 1;
}
