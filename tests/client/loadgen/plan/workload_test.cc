#include "client/loadgen/plan/workload.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "softmax/v1/softmax.pb.h"

namespace softmax::client {
namespace {

TEST(MixTest, PayloadBytesBecomeAShapeOfThatSize) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64}) {
    for (const std::uint64_t bytes : {8ull, 64ull, 4096ull, 65536ull, 1ull << 20, 16ull << 20, 1000ull}) {
      const auto shape = ShapeForPayload(bytes, dtype);
      ASSERT_TRUE(shape) << bytes;
      EXPECT_EQ(*ElementsOf(shape->value) * SizeOf(dtype), bytes);
    }
  }
  EXPECT_EQ(ShapeText(ShapeForPayload(1 << 20, DataType::kFloat32)->value), "256x1024");
  EXPECT_EQ(ShapeText(ShapeForPayload(64, DataType::kFloat32)->value), "1x16");
}

TEST(MixTest, WeightsAreReadAndMustBeAboveZero) {
  EXPECT_EQ(ParseShape("4x5:2.5")->weight, 2.5);
  EXPECT_EQ(ParseWeightedType("float16:3")->weight, 3);
  EXPECT_EQ(ParseWeightedOperation("log_softmax")->value, Operation::kLogSoftmax);
  for (const char* wrong : {"4x5:0", "4x5:-1", "4x5:", "4x5:x", "4x", "x4", ""}) EXPECT_FALSE(ParseShape(wrong));
  EXPECT_FALSE(ParseWeightedType("int8"));
  EXPECT_FALSE(ParseWeightedType("float16:0"));
  EXPECT_EQ(ParseWeightedAnswer("top20+log-sum-exp:3")->weight, 3);
  EXPECT_EQ(ParseWeightedAnswer("entropy+top20")->value.top_k, 20u);
  for (const char* same : {"tensor", "top5", "top1024+log-sum-exp+entropy", "entropy"}) {
    EXPECT_EQ(NameOf(ParseWeightedAnswer(same)->value), same);
  }
  for (const char* wrong :
       {"", "top", "top0", "topx", "top-1", "top3+top4", "tensor+top3", "lse", "entropy+entropy", "+"}) {
    EXPECT_FALSE(ParseWeightedAnswer(wrong)) << wrong;
  }
}

TEST(MixTest, EveryKindOfRequestIsAClass) {
  Mix mix;
  mix.shapes = {{{4, 5}, 1}, {{6}, 2}};
  mix.dtypes = {{DataType::kFloat32, 3}, {DataType::kFloat16, 1}};
  mix.answers = {*ParseWeightedAnswer("tensor"), *ParseWeightedAnswer("top2:9")};
  const std::vector<RequestClass> classes = ClassesOf(mix);
  ASSERT_EQ(classes.size(), 8u);
  EXPECT_EQ(classes[0].name, "4x5 float32 tensor");
  EXPECT_EQ(classes[7].name, "6 float16 top2");
  EXPECT_EQ(classes[5].weight, 2 * 3 * 9);
  EXPECT_EQ(classes[5].answer.top_k, 2u);
  EXPECT_EQ(AskedText(mix), "softmax tensor or top2");
}

std::vector<std::int64_t> ShapeOf(const softmax::v1::SoftmaxRequest& request) {
  return {request.input().shape().begin(), request.input().shape().end()};
}

TEST(WorkloadTest, MessagesAreRequestsOfTheirShapeAndFollowTheWeights) {
  LoadOptions options;
  options.mix.shapes = {{{3, 5}, 3}, {{2, 7, 2}, 1}};
  options.axis = 1;
  const Workload workload = Workload::Build(options);
  for (const Variant& variant : workload.variants()) {
    softmax::v1::SoftmaxRequest request;
    ASSERT_TRUE(request.ParseFromString(variant.message));
    EXPECT_EQ(request.id(), variant.id);
    EXPECT_EQ(ShapeOf(request), variant.shape);
    EXPECT_EQ(request.input().data().size(), variant.payload().size());
  }
  EXPECT_EQ(workload.variants().back().shape.back(), 2);
  int first = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    if (workload.variants()[workload.VariantAt(i)].class_index == 0) ++first;
  }
  EXPECT_EQ(first, 3072);
}

TEST(WorkloadTest, TypesAndOperationsAreMixedByTheProductOfTheirWeights) {
  LoadOptions options;
  options.mix.shapes = {{{1, 8}, 1}};
  options.mix.dtypes = {{DataType::kFloat32, 3}, {DataType::kBFloat16, 1}};
  options.mix.operations = {{Operation::kSoftmax, 1}, {Operation::kLogSoftmax, 1}};
  const Workload workload = Workload::Build(options);
  std::map<std::string, int> seen;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const Variant& variant = workload.variants()[workload.VariantAt(i)];
    softmax::v1::SoftmaxRequest request;
    ASSERT_TRUE(request.ParseFromString(variant.message));
    EXPECT_EQ(static_cast<int>(request.input().dtype()), static_cast<int>(variant.dtype));
    EXPECT_EQ(request.operation() == softmax::v1::OPERATION_LOG_SOFTMAX, variant.operation == Operation::kLogSoftmax);
    ++seen[workload.classes()[variant.class_index].name];
  }
  const std::map<std::string, int> expected = {{"1x8 float32 softmax", 1536},
                                               {"1x8 float32 log_softmax", 1536},
                                               {"1x8 bfloat16 softmax", 512},
                                               {"1x8 bfloat16 log_softmax", 512}};
  EXPECT_EQ(seen, expected);
}

TEST(WorkloadTest, DrawnShapesStayInTheirBoundsAndVary) {
  LoadOptions options;
  options.mix.rows = *Distribution::Parse("uniform:1:64");
  options.mix.columns = *Distribution::Parse("loguniform:16:4096");
  const Workload workload = Workload::Build(options);
  std::set<std::vector<std::int64_t>> shapes;
  for (const Variant& variant : workload.variants()) {
    shapes.insert(variant.shape);
    ASSERT_EQ(variant.shape.size(), 2u);
    EXPECT_TRUE(variant.shape[0] >= 1 && variant.shape[0] <= 64) << variant.shape[0];
    EXPECT_TRUE(variant.shape[1] >= 16 && variant.shape[1] <= 4096) << variant.shape[1];
  }
  EXPECT_GT(shapes.size(), 500u);
  EXPECT_EQ(workload.classes().size(), 1u);
}

// The whole sequence of requests, bytes included.
std::string SequenceOf(const LoadOptions& options) {
  const Workload workload = Workload::Build(options);
  std::string sequence;
  for (std::uint64_t i = 0; i < 1000; ++i) sequence += workload.variants()[workload.VariantAt(i)].message;
  return sequence;
}

TEST(WorkloadTest, TheSameSeedSendsTheSameSequenceAndAnotherDoesNot) {
  LoadOptions options;
  options.mix.rows = *Distribution::Parse("uniform:1:4");
  options.mix.columns = *Distribution::Parse("zipf:1.2:8:64");
  options.mix.dtypes = {{DataType::kFloat32}, {DataType::kFloat16}};
  const std::string first = SequenceOf(options);
  EXPECT_EQ(SequenceOf(options), first);
  options.seed = 2;
  EXPECT_NE(SequenceOf(options), first);
}

TEST(WorkloadTest, AShapeCanBeAskedForByItsIndex) {
  LoadOptions options;
  options.mix.shapes = {{{3, 5}, 9}, {{2, 7}, 1}};
  const Workload workload = Workload::Build(options);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(workload.variants()[workload.VariantOfShape(1, i)].class_index, 1u);
  }
}

}  // namespace
}  // namespace softmax::client
