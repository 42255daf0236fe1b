// Shared memory of the Open Inference Protocol, as tritonclient and perf_analyzer use it: files of /dev/shm, registered
// under names, that tensors are read from and written to.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/end_to_end/oip_fixture.h"

namespace softmax::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Stub = GRPCInferenceService::Stub;

// A file of shared memory, as shm_open makes it. Gone with this.
class ShmFile {
 public:
  explicit ShmFile(std::uint64_t bytes) : bytes_(bytes) {
    static int count = 0;
    name_ = "/softmax_oip_files_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    descriptor_ = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_GE(descriptor_, 0);
    Resize(bytes);
  }
  ~ShmFile() {
    (void)close(descriptor_);
    (void)shm_unlink(name_.c_str());
  }
  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }
  void Resize(std::uint64_t bytes) { EXPECT_EQ(ftruncate(descriptor_, static_cast<off_t>(bytes)), 0); }
  void Write(std::uint64_t offset, const std::vector<std::byte>& data) {
    ASSERT_EQ(pwrite(descriptor_, data.data(), data.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(data.size()));
  }
  std::string Read(std::uint64_t offset, std::uint64_t bytes) const {
    std::string data(bytes, '\0');
    EXPECT_EQ(pread(descriptor_, data.data(), bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
    return data;
  }

 private:
  std::string name_;
  const std::uint64_t bytes_;
  int descriptor_ = -1;
};

template <typename Tensor>
void Place(const std::string& region, std::uint64_t bytes, std::uint64_t offset, Tensor* tensor) {
  auto& parameters = *tensor->mutable_parameters();
  parameters["shared_memory_region"].set_string_param(region);
  parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(bytes));
  if (offset != 0) parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(offset));
}

class OipFiles : public OipTest {
 protected:
  OipFiles() : OipTest([](server::Config& config) { config.oip_shared_memory = "/dev/shm"; }) {}

  grpc::Status Register(const std::string& name, const std::string& key, std::uint64_t bytes, std::uint64_t offset) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(key);
    request.set_byte_size(bytes);
    request.set_offset(offset);
    inference::SystemSharedMemoryRegisterResponse response;
    return stub_->SystemSharedMemoryRegister(Context().get(), request, &response);
  }
  void MustRegister(const std::string& name, const ShmFile& file, std::uint64_t offset = 0) {
    const grpc::Status status = Register(name, file.name(), file.bytes() - offset, offset);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  void Unregister(const std::string& name) {
    inference::SystemSharedMemoryUnregisterRequest request;
    request.set_name(name);
    Ask(&Stub::SystemSharedMemoryUnregister, request);
  }
  auto Regions(const std::string& name = "") {
    inference::SystemSharedMemoryStatusRequest request;
    request.set_name(name);
    return Ask(&Stub::SystemSharedMemoryStatus, request).regions();
  }
  std::string Error(const ModelInferRequest& request, grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    ModelInferResponse response;
    const grpc::Status status = Infer(request, &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return status.error_message();
  }
};

// The question's input at `offset` of `in`, its answer at `offset` of `out`.
ModelInferRequest Placed(const Question& question, const std::string& in, std::uint64_t in_offset,
                         const std::string& out, std::uint64_t out_offset, std::uint64_t out_bytes) {
  ModelInferRequest request = RequestOf(question);
  request.clear_raw_input_contents();
  Place(in, question.data.size(), in_offset, request.mutable_inputs(0));
  auto* const output = request.add_outputs();
  output->set_name("Y");
  Place(out, out_bytes, out_offset, output);
  return request;
}

void ExpectRightInFile(const Question& question, const ShmFile& file, std::uint64_t offset, std::uint64_t bytes,
                       ModelInferResponse response) {
  ASSERT_EQ(response.raw_output_contents_size(), response.outputs_size());
  EXPECT_EQ(response.raw_output_contents(0), "");
  *response.mutable_raw_output_contents(0) = file.Read(offset, bytes);
  ExpectRight(question, response);
}

TEST_F(OipFiles, TensorsOfEverySizeGoFromRegionToRegion) {
  ShmFile in(9u << 20), out(9u << 20);
  MustRegister("input_data", in);
  MustRegister("output_data", out, 64);
  for (const std::int64_t columns : {0, 1, 7, 1000, 50257, 2 << 20}) {
    const Question question = MakeQuestion({1, columns}, 3);
    in.Write(8, question.data);
    const std::uint64_t bytes = question.data.size();
    ModelInferResponse response;
    const grpc::Status status = Infer(Placed(question, "input_data", 8, "output_data", 16, bytes), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ExpectRightInFile(question, out, 64 + 16, bytes, response);
  }
}

TEST_F(OipFiles, OneOfSeveralInputsAndOutputsMayBeInARegion) {
  ShmFile file(1u << 20);
  MustRegister("both", file);
  const Question sent = MakeQuestion({3, 100}, 1), placed = MakeQuestion({5, 64}, 2, kernels::DataType::kFloat16);
  ModelInferRequest request = RequestOf(placed);
  request.mutable_inputs(0)->set_name("X0");
  request.clear_raw_input_contents();
  Place("both", placed.data.size(), 256, request.mutable_inputs(0));
  file.Write(256, placed.data);
  *request.add_inputs() = RequestOf(sent).inputs(0);
  request.add_raw_input_contents(Bytes(sent.data));
  request.add_outputs()->set_name("Y0");
  auto* const in_region = request.add_outputs();
  in_region->set_name("Y");
  Place("both", 2000, 8192, in_region);
  ModelInferResponse response;
  grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  *response.mutable_raw_output_contents(1) = file.Read(8192, sent.data.size());
  Question answered = placed;
  answered.output_type = placed.input_type;
  ExpectRight(answered, response, 0);
  ExpectRight(sent, response, 1);
}

TEST_F(OipFiles, StreamsAndFurtherOutputs) {
  ShmFile file(1u << 20);
  MustRegister("region", file);
  const Question question = MakeQuestion({4, 1000}, 9);
  file.Write(0, question.data);
  ModelInferRequest plain = RequestOf(question);
  (*plain.mutable_parameters())["top_k"].set_int64_param(3);
  ModelInferResponse expected;
  ASSERT_TRUE(Infer(plain, &expected).ok());
  ModelInferRequest request = plain;
  request.clear_raw_input_contents();
  Place("region", question.data.size(), 0, request.mutable_inputs(0));
  for (const char* name : {"Y_top_values", "Y_top_indices"}) {
    auto* const output = request.add_outputs();
    output->set_name(name);
    Place("region", 48, 32768 + 64 * static_cast<std::uint64_t>(request.outputs_size()), output);
  }
  auto context = Context();
  auto stream = stub_->ModelStreamInfer(context.get());
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.error_message(), "");
  EXPECT_EQ(answer.infer_response().outputs_size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(answer.infer_response().outputs(i).name(), expected.outputs(i).name());
    EXPECT_EQ(answer.infer_response().raw_output_contents(i), "");
    EXPECT_EQ(file.Read(32768 + 64 * static_cast<std::uint64_t>(i + 1), 48), expected.raw_output_contents(i));
  }
  // A request that names what is not there has its own error, and the stream goes on.
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("gone");
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_THAT(answer.error_message(), HasSubstr("\"gone\": there is no such region"));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(OipFiles, RegionsAreListedAndUnregistered) {
  ShmFile file(4096);
  MustRegister("a", file);
  MustRegister("b", file, 1024);
  EXPECT_EQ(Regions().size(), 2u);
  const auto region = Regions("b").at("b");
  EXPECT_EQ(region.key(), file.name());
  EXPECT_EQ(region.offset(), 1024u);
  EXPECT_EQ(region.byte_size(), 3072u);
  const grpc::Status again = Register("a", file.name(), 4096, 0);
  EXPECT_EQ(again.error_code(), grpc::ALREADY_EXISTS) << again.error_message();
  Unregister("a");
  Unregister("a");  // which is no error, as in Triton
  EXPECT_EQ(Regions().size(), 1u);
  Unregister("");
  EXPECT_TRUE(Regions().empty());
  EXPECT_THAT(Ask(&Stub::ServerMetadata, inference::ServerMetadataRequest()).extensions(),
              Contains("system_shared_memory"));
}

TEST_F(OipFiles, OnlyFilesOfTheFolderAreOpened) {
  const auto refused = [this](const std::string& key) {
    const grpc::Status status = Register("r", key, 64, 0);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << key << ": " << status.error_message();
    return status.error_message();
  };
  ShmFile file(64), other(64);
  const std::string path = "/dev/shm" + file.name();
  for (const char* key : {"", "/", ".", "..", "../etc/passwd", "/etc/passwd", "a/b", "/softmax_oip_files_of_nobody"}) {
    EXPECT_THAT(refused(key), HasSubstr("key: "));
  }
  ASSERT_EQ(symlink("/etc/passwd", (path + "_link").c_str()), 0);
  EXPECT_THAT(refused(file.name() + "_link"), HasSubstr("cannot open"));
  (void)unlink((path + "_link").c_str());
  ASSERT_EQ(mkfifo((path + "_pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused(file.name() + "_pipe"), HasSubstr("is no file"));
  (void)unlink((path + "_pipe").c_str());
  EXPECT_THAT(Register("r", file.name(), 65, 0).error_message(), HasSubstr("byte_size: is 65 from offset 0 on"));
  EXPECT_THAT(Register("r", file.name(), 1, UINT64_MAX).error_message(), HasSubstr("has 64 bytes in all"));
  EXPECT_THAT(Register("r", file.name(), 0, 0).error_message(), HasSubstr("byte_size: is 0"));
  EXPECT_THAT(Register("", file.name(), 64, 0).error_message(), HasSubstr("name: has 0 bytes"));
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(Register("r" + std::to_string(i), other.name(), 64, 0).ok());
  const grpc::Status full = Register("one more", other.name(), 64, 0);
  EXPECT_EQ(full.error_code(), grpc::RESOURCE_EXHAUSTED) << full.error_message();
}

TEST_F(OipFiles, PlacesThatAreNotRightAreNamed) {
  ShmFile file(4096);
  MustRegister("region", file);
  const Question question = MakeQuestion({1, 16}, 1);
  const auto placed = [&](std::uint64_t in, std::uint64_t out, std::uint64_t bytes) {
    return Placed(question, "region", in, "region", out, bytes);
  };
  ModelInferResponse response;
  ASSERT_TRUE(Infer(placed(4032, 4032, 64), &response).ok());
  EXPECT_THAT(Error(placed(4036, 0, 64)), HasSubstr("inputs[0].parameters[\"shared_memory_region\"]: \"region\" has"));
  EXPECT_THAT(Error(placed(0, 4036, 64)), HasSubstr("64 from offset 4036 on must be inside"));
  EXPECT_THAT(Error(placed(INT64_MAX, 0, 64)), HasSubstr("must be inside"));
  EXPECT_THAT(Error(placed(0, 0, 63)), HasSubstr("outputs[0].parameters[\"shared_memory_byte_size\"]: is 63; must be "
                                                 "at least 64"));
  ModelInferRequest request = placed(0, 0, 64);
  auto& parameters = *request.mutable_inputs(0)->mutable_parameters();
  parameters["shared_memory_byte_size"].set_int64_param(60);
  EXPECT_THAT(Error(request), HasSubstr("inputs[0].parameters[\"shared_memory_byte_size\"]"));
  parameters["shared_memory_byte_size"].set_int64_param(-1);
  EXPECT_THAT(Error(request), HasSubstr("is -1; must be >= 0 bytes"));
  parameters.erase("shared_memory_byte_size");
  EXPECT_THAT(Error(request), HasSubstr("[\"shared_memory_byte_size\"]: has no value"));
  parameters.erase("shared_memory_region");
  parameters["shared_memory_offset"].set_int64_param(0);
  EXPECT_THAT(Error(request), HasSubstr("[\"shared_memory_region\"]: has no value"));
  request = placed(0, 0, 64);
  request.add_raw_input_contents(std::string(64, '\0'));
  EXPECT_THAT(Error(request), HasSubstr("raw_input_contents: has 1 values; must have 0"));
  request = placed(0, 0, 64);
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(1);
  EXPECT_THAT(Error(request, grpc::UNIMPLEMENTED), HasSubstr("\"classification\": is not written to shared memory"));
  Unregister("region");
  EXPECT_THAT(Error(placed(0, 0, 64), grpc::NOT_FOUND), HasSubstr("\"region\": there is no such region"));
}

// Whatever a client does to its file, the call that uses it fails, and nothing else.
TEST_F(OipFiles, AFileThatIsCutShortFailsItsOwnCalls) {
  ShmFile file(8u << 20), other(4096);
  MustRegister("region", file);
  MustRegister("other", other);
  const Question large = MakeQuestion({1, 1 << 20}, 1), small = MakeQuestion({1, 64}, 2);
  other.Write(0, small.data);
  file.Resize(4096);
  EXPECT_THAT(Error(Placed(large, "region", 0, "region", 0, 4u << 20)),
              HasSubstr("inputs[0]: the file of its region has not all of its bytes any more"));
  ModelInferResponse response;
  ASSERT_TRUE(Infer(Placed(small, "other", 0, "other", 1024, 256), &response).ok());
  ExpectRightInFile(small, other, 1024, 256, response);
  file.Resize(8u << 20);
  ASSERT_TRUE(Infer(Placed(large, "region", 0, "region", 4u << 20, 4u << 20), &response).ok());
}

TEST(OipFilesStart, AFolderThatIsNotInMemoryIsRefused) {
  for (const char* folder : {"/nowhere/at/all", "/proc", "/etc/passwd"}) {
    server::Config config;
    config.address = {"127.0.0.1:0"};
    config.backend = server::Backend::kCpu;
    config.arena_bytes = 64u << 20;
    config.oip_shared_memory = folder;
    const auto server = server::Server::Create(config);
    const absl::Status& status = server.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("oip-shared-memory"), HasSubstr(folder)));
  }
}

}  // namespace
}  // namespace softmax::testing
