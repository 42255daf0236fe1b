#include "kernels/bench/built_in.h"

#include <iterator>

// The assembler takes each file in as it is; it looks where the compiler looks for includes.
#define SOFTMAX_SUITE(symbol, name)                 \
  __asm__(                                          \
      ".pushsection .rodata\n"                      \
      "softmax_suite_" #symbol                      \
      ":\n"                                         \
      ".incbin \"kernels/bench/suites/" name        \
      ".txt\"\n"                                    \
      "softmax_suite_" #symbol                      \
      "_end:\n"                                     \
      ".byte 0\n"                                   \
      ".popsection\n");                             \
  extern "C" {                                      \
  extern const char softmax_suite_##symbol[];       \
  extern const char softmax_suite_##symbol##_end[]; \
  }

SOFTMAX_SUITE(all, "all")
SOFTMAX_SUITE(answers, "answers")
SOFTMAX_SUITE(axis, "axis")
SOFTMAX_SUITE(between, "between")
SOFTMAX_SUITE(cpu, "cpu")
SOFTMAX_SUITE(edge, "edge")
SOFTMAX_SUITE(few_rows, "few-rows")
SOFTMAX_SUITE(host, "host")
SOFTMAX_SUITE(lengths, "lengths")
SOFTMAX_SUITE(logits, "logits")
SOFTMAX_SUITE(narrow, "narrow")
SOFTMAX_SUITE(pairs, "pairs")
SOFTMAX_SUITE(ragged, "ragged")
SOFTMAX_SUITE(random, "random")
SOFTMAX_SUITE(small, "small")
SOFTMAX_SUITE(strided, "strided")
SOFTMAX_SUITE(tutorial, "tutorial")
SOFTMAX_SUITE(users, "users")

namespace softmax::kernels::bench {
namespace {

struct Suite {
  const char* name;
  const char* begin;
  const char* end;
};

const Suite kSuites[] = {
    {"all", softmax_suite_all, softmax_suite_all_end},
    {"answers", softmax_suite_answers, softmax_suite_answers_end},
    {"axis", softmax_suite_axis, softmax_suite_axis_end},
    {"between", softmax_suite_between, softmax_suite_between_end},
    {"cpu", softmax_suite_cpu, softmax_suite_cpu_end},
    {"edge", softmax_suite_edge, softmax_suite_edge_end},
    {"few-rows", softmax_suite_few_rows, softmax_suite_few_rows_end},
    {"host", softmax_suite_host, softmax_suite_host_end},
    {"lengths", softmax_suite_lengths, softmax_suite_lengths_end},
    {"logits", softmax_suite_logits, softmax_suite_logits_end},
    {"narrow", softmax_suite_narrow, softmax_suite_narrow_end},
    {"pairs", softmax_suite_pairs, softmax_suite_pairs_end},
    {"ragged", softmax_suite_ragged, softmax_suite_ragged_end},
    {"random", softmax_suite_random, softmax_suite_random_end},
    {"small", softmax_suite_small, softmax_suite_small_end},
    {"strided", softmax_suite_strided, softmax_suite_strided_end},
    {"tutorial", softmax_suite_tutorial, softmax_suite_tutorial_end},
    {"users", softmax_suite_users, softmax_suite_users_end},
};

}  // namespace

std::optional<std::string> BuiltInSuite(const std::string& name) {
  for (const Suite& suite : kSuites) {
    if (name == suite.name) return std::string(suite.begin, suite.end);
  }
  return std::nullopt;
}

std::string BuiltInNames() {
  std::string names = kSuites[0].name;
  for (std::size_t i = 1; i < std::size(kSuites); ++i) names += std::string(", ") + kSuites[i].name;
  return names;
}

}  // namespace softmax::kernels::bench
