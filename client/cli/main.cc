#include <absl/strings/str_format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <utility>

#include "client/base/file.h"
#include "client/base/program.h"
#include "client/cli/cli_options.h"
#include "client/cli/files.h"
#include "client/cli/health.h"
#include "client/cli/summary_text.h"
#include "client/softmax_client/softmax_client.h"
#include "common/base/process_settings.h"
#include "common/base/shortage.h"

namespace softmax::client {
namespace {

constexpr char kProgram[] = "softmax-client";

// A server that cannot be reached is told of after so long, not only at the end of the timeout.
constexpr std::chrono::milliseconds kSilence(500);
constexpr std::chrono::milliseconds kShortest(1);

// What gRPC opens for itself, and the file of the answer.
constexpr std::size_t kDescriptors = 7;

// Prints the one line about what went wrong, and says how to exit.
int Report(const absl::Status& status) {
  Say(std::string(status.message()));
  if (status.code() == absl::StatusCode::kInvalidArgument) return 2;
  return status.code() == absl::StatusCode::kUnavailable ? 3 : 1;
}

using Clock = std::chrono::steady_clock;

// What is left of --timeout. What nothing is left of has no answer, but a call says so, and how the connection is.
std::chrono::nanoseconds Left(Clock::time_point until) {
  return std::max<std::chrono::nanoseconds>(kShortest, until - Clock::now());
}

// A client that is connected.
absl::StatusOr<std::unique_ptr<Client>> Connect(const CliOptions& options, Clock::time_point until) {
  auto client = Client::Create(ForClient(options));
  if (!client.ok()) return client;
  const std::chrono::nanoseconds first = std::min<std::chrono::nanoseconds>(options.timeout, kSilence);
  absl::Status connected = (*client)->WaitForConnection(first);
  if (!connected.ok() && first < options.timeout) {
    const std::chrono::nanoseconds rest = options.timeout - first;
    Say(absl::StrFormat("%s; waiting %g s more", std::string(connected.message()),
                        std::chrono::duration<double>(rest).count()));
    connected = (*client)->WaitForConnection(std::min(rest, Left(until)));
  }
  if (!connected.ok()) return connected;
  return client;
}

// The tensor as it is sent.
absl::StatusOr<Array> InputOf(const CliOptions& options, const LoadedArray& loaded) {
  const DataType native = loaded.format == Format::kNpy ? loaded.array.dtype : DataType::kFloat32;
  Array input = Converted(loaded.array, options.dtype.value_or(native));
  const absl::Status fits = options.overflow_to_infinity ? absl::OkStatus() : CheckNoneOverflowed(loaded.array, input);
  if (fits.ok()) return input;
  return absl::InvalidArgumentError(NameOfInput(options.input) + ": " + std::string(fits.message()) +
                                    "; choose another --dtype, or --overflow-to-infinity");
}

// A traceparent that nobody has had, sampled; says its trace.
std::string BeginTrace() {
  std::random_device device;
  std::uniform_int_distribution<std::uint64_t> random(1);  // zeros are no id
  const std::string trace = absl::StrFormat("%016x%016x", random(device), random(device));
  Say("trace " + trace);
  return absl::StrFormat("00-%s-%016x-01", trace, random(device));
}

SoftmaxOptions OptionsOf(const CliOptions& options) {
  SoftmaxOptions softmax;
  softmax.operation = options.operation.value_or(Operation::kSoftmax);
  softmax.axis = options.axis;
  softmax.scale = options.scale;
  softmax.output_dtype = options.output_dtype;
  softmax.lengths = options.lengths;
  if (options.trace) softmax.trace.traceparent = BeginTrace();
  return softmax;
}

// Puts a tensor and the place for its answer into memory that the server shares.
absl::StatusOr<Region> PutIntoRegion(Client& client, TensorView* input, SoftmaxOptions* softmax) {
  const std::size_t elements = input->data.size() / SizeOf(input->dtype);
  const std::size_t answer_at = (input->data.size() + 7) / 8 * 8;
  const std::size_t answer_bytes =
      softmax->summary.any() ? 0 : elements * SizeOf(softmax->output_dtype.value_or(input->dtype));
  auto region = client.AllocateRegion(std::max<std::size_t>(1, answer_at + answer_bytes));
  if (!region.ok()) return region;
  const absl::Status written = region->Write(0, input->data);
  if (!written.ok()) return written;
  input->data = region->At<std::byte>(0, input->data.size());
  softmax->output = region->At<std::byte>(answer_at, answer_bytes);
  return region;
}

int PrintInfo(const CliOptions& options) {
  const auto until = Clock::now() + options.timeout;
  const auto client = Connect(options, until);
  if (!client.ok()) return Report(client.status());
  const auto info = (*client)->GetServerInfo(Left(until));
  if (!info.ok()) return Report(info.status());
  std::string text = absl::StrFormat("version    %s (%s)\nbackend    %s\n", Visible(info->version),
                                     Visible(info->build), Visible(info->backend));
  for (const std::string& device : info->devices) text += "device     " + Visible(device) + "\n";
  text += "dtypes    ";
  for (const DataType dtype : info->dtypes) text += " " + std::string(NameOf(dtype));
  text += "\noperations";
  for (const Operation operation : info->operations) text += " " + std::string(NameOf(operation));
  const ServerLimits& limits = info->limits;
  text += absl::StrFormat(
      "\nlimits     request %d bytes, answer %d bytes, rank %d, rows %d, columns %d, top %d\n"
      "           stream: %d requests in a message, %d in flight\n",
      limits.max_request_bytes, limits.max_response_bytes, limits.max_rank, limits.max_rows, limits.max_columns,
      limits.max_top_k, limits.max_requests_per_stream_message, limits.max_in_flight_per_stream);
  if (info->regions) {
    text += absl::StrFormat("regions    %s: %d bytes, %d on each device, tensors up to %d bytes\n",
                            Visible(info->regions->socket), info->regions->max_bytes, info->regions->max_device_bytes,
                            info->regions->max_tensor_bytes);
  }
  if (info->degraded) text += "degraded   a device was lost\n";
  for (const std::string& device : info->lost_devices) text += "lost       " + Visible(device) + "\n";
  if (info->unsafe_testing) text += "unsafe     test switches are on: answers may be wrong\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

// Sends the tensor, and prints what was asked of its rows, or writes the whole answer.
int RunSoftmax(const CliOptions& options) {
  const bool summary = options.wants_summary();
  const auto labels = ReadLabels(summary ? options.labels : "");
  if (!labels.ok()) return Report(labels.status());
  const auto loaded = LoadArray(options.input, options.format);
  if (!loaded.ok()) return Report(loaded.status());
  const auto input = InputOf(options, *loaded);
  if (!input.ok()) return Report(input.status());
  const absl::StatusOr<Format> output_format = summary ? loaded->format : PlanOutput(options.output, loaded->format);
  if (!output_format.ok()) return Report(output_format.status());
  const auto until = Clock::now() + options.timeout;
  const auto client = Connect(options, until);
  if (!client.ok()) return Report(client.status());
  const bool has_rows = summary && !input->data.empty();
  const std::size_t rows = has_rows ? RowsOf(input->shape, options.axis.value_or(-1)) : 0;
  const std::vector<std::int32_t> indices = IndicesOf(options, rows);
  SoftmaxOptions softmax = OptionsOf(options);
  if (summary) softmax.summary = {options.top, indices, options.log_sum_exp, options.entropy, false};
  TensorView view{input->dtype, input->shape, input->data};
  absl::StatusOr<Region> region;
  if (options.regions) region = PutIntoRegion(**client, &view, &softmax);
  if (options.regions && !region.ok()) return Report(region.status());
  softmax.timeout = Left(until);
  const auto answer = (*client)->Softmax(view, softmax);
  if (!answer.ok()) return Report(answer.status());
  if (summary) {
    const bool is_double = input->dtype == DataType::kFloat64;
    std::fputs(SummaryText(options, answer->summary(), rows, is_double, *labels).c_str(), stdout);
    return 0;
  }
  const Array output{answer->dtype(), answer->shape(), {answer->data().begin(), answer->data().end()}};
  const absl::Status saved = SaveArray(options.output, *output_format, output);
  if (saved.ok()) return 0;
  const int exit_code = Report(saved);
  return absl::IsResourceExhausted(saved) ? kExitUnavailable : exit_code;
}

int Do(const CliOptions& options) {
  const auto addresses = static_cast<std::size_t>(std::count(options.address.begin(), options.address.end(), ',')) + 1;
  std::string shortage = ThreadShortage(GrpcThreads());
  if (shortage.empty()) shortage = DescriptorShortage(kDescriptors + addresses);
  if (!shortage.empty()) {
    Say(shortage);
    return kExitUnavailable;
  }
  switch (options.action) {
    case Action::kInfo:
      return PrintInfo(options);
    case Action::kHealth:
      return CheckHealth(options);
    case Action::kSoftmax:
      return RunSoftmax(options);
  }
  return 1;
}

}  // namespace
}  // namespace softmax::client

int main(int argc, char** argv) {
  using namespace softmax::client;
  softmax::ApplyProcessSettings();
  // What gRPC would log of its own is in the errors.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // A file above the limit of the process is an error of its write, and not the end before anything was said.
  signal(SIGXFSZ, SIG_IGN);
  softmax::ExitWithoutMemory(kProgram);
  softmax::RaiseDescriptorLimit();
  KeepOpenSsl();
  if (const std::string problem = softmax::PollStrategyProblem(); !problem.empty()) {
    Say(problem);
    return 2;
  }
  int exit_code = 0;
  if (const auto options = ParseCliCommandLine(argc, argv, &exit_code)) exit_code = Do(*options);
  // What was printed, of --help too.
  if (exit_code == 0 && !softmax::OutputArrived(kProgram)) exit_code = softmax::kExitUnavailable;
  return exit_code;
}
