"""Shows each rule a tree that breaks it, and a tree that breaks none."""
import os
import tempfile


ONCE = "#pragma once\n"

REFERENCE = """# Reference

## Flags of softmax-server

| `--address` | address | 0.0.0.0:50051 | Where to serve |
| `--max-rank` | 1 to 8 | 8 | Most dimensions |

## Flags of softmax-client

| `--address` | localhost:50051 | Whom to ask |

## Flags of softmax-loadgen

| `--address`, `--target` | localhost:50051 | Whom to load |

## Metrics

| `softmax_rows_total` | counter | Rows run |
"""

GOOD = {
    "kernels/types.h": "#pragma once\n",
    "kernels/softmax.h": ONCE + "#include <cuda_runtime_api.h>\n#include \"kernels/types.h\"\n",
    "common/base/clock.h": ONCE + "#include <chrono>\n",
    "server/batching/batcher.h": ONCE + "#include <mutex>\n#include \"common/base/clock.h\"\n",
    "server/execution/cuda/lane.cc": "#include <cuda_runtime.h>\n#include \"server/batching/batcher.h\"\n",
    "server/metrics/metrics.cc": "#include <prometheus/registry.h>\nauto name = \"softmax_rows_total\";\n",
    "server/config/config.cc": "auto flag = \"--address\";\n",
    "server/base/log.cc": "#include <spdlog/spdlog.h>\n#include \"server/base/log.h\"\n",
    "server/base/log.h": ONCE + "#include <string_view>\n",
    "server/execution/executor.cc": "#include \"server/base/log.h\"\n",
    "common/wire/decode.h": ONCE + "#include \"common/base/clock.h\"\n",
    "server/config/flags.cc": "#include <CLI/CLI.hpp>\n",
    "client/loadgen/scrape/server_metrics.h": ONCE + "#include <nlohmann/json_fwd.hpp>\n",
    "client/loadgen/scrape/server_metrics.cc": "#include <nlohmann/json.hpp>\n",
    "lab/bench/listen.h": ONCE + "#include <grpcpp/grpcpp.h>\n#include \"server/batching/batcher.h\"\n",
    "server/rpc/unary.cc": "#include <grpcpp/grpcpp.h>\n#include \"server/batching/batcher.h\"\n",
    "client/softmax_client/softmax_client.h": ONCE + "#include <span>\n",
    # A type's name is its whole name, and what stands in functions and unnamed namespaces is nobody else's.
    "server/metrics/shard.h": ONCE + "namespace softmax::server {\nstruct Row;\n"
                              "class alignas(128) Shard final : Base {\n  struct Part {};\n};\n"
                              "namespace {\nstruct Own {};\n}\n}\n",
    "server/batching/shard.h": ONCE + "namespace softmax::server {\nclass Shard;\nstruct Part {};\nclass Row {};\n"
                               "namespace {\nstruct Own {};\n}\nvoid F() { struct Row {}; }\n}\n"
                               "namespace softmax::client {\nclass Shard {};\n}\n// class Row {\n",
    "README.md": "`server/config/config.cc` reads `--address`; `softmax_rows_total` counts: [more](docs/README.md).\n",
    "server/config/fields.h": ONCE + "const FieldText kText = {\"address\", group, \"Where to serve\"};\n"
                              "const FieldText kRank = {\"max-rank\", group, \"Most dimensions\"};\n",
    "client/cli/cli_options.cc": "auto flag = \"--address\";\n",
    "client/loadgen/plan/option_flags.cc": "auto flag = \"--address,--target\";\n",
    "docs/README.md": "[Tables](reference.md), [figures](measurements/README.md#h100), [else](https://a.org/a.md)\n",
    "docs/measurements/README.md": "Of a commit that had `--old-flag`: [figures](h100.md)\n",
    "docs/measurements/h100.md": "1. a list\n\n| " + "wide " * 30 + "|\n\nCode:\n\n    " + "wide " * 30 + "\n",
    "docs/reference.md": REFERENCE,
}

# What is written over the good tree -> a part of the message it must lead to.
BAD = [
    ("server/batching/batcher.h", ONCE + "#include <grpcpp/grpcpp.h>\n", "gRPC or protobuf may be used only"),
    ("server/batching/batcher.h", ONCE + "#include <absl/synchronization/mutex.h>\n", "abseil's locks"),
    ("server/batching/batcher.h", ONCE + "#include <prometheus/counter.h>\n", "prometheus-cpp may be"),
    ("server/batching/batcher.h", ONCE + "#include <spdlog/spdlog.h>\n", "spdlog or fmt may be"),
    ("server/base/log.h", ONCE + "#include <spdlog/spdlog.h>\n", "spdlog or fmt may be"),
    ("server/rpc/unary.cc", "#include <fmt/format.h>\n", "spdlog or fmt may be"),
    ("tests/server/base/log_test.cc", "#include <spdlog/spdlog.h>\n", "spdlog or fmt may be"),
    ("server/config/flags.h", ONCE + "#include <CLI/CLI.hpp>\n", "CLI11 may be included in no header"),
    ("client/loadgen/scrape/server_metrics.h", ONCE + "#include <nlohmann/json.hpp>\n", "included in no header"),
    ("server/batching/batcher.h", ONCE + "#include <cuda_runtime.h>\n", "CUDA may be"),
    ("server/batching/batcher.h", ONCE + "#include \"server/execution/lane.h\"\n", "server/batching/ may include"),
    ("server/batching/batcher.h", ONCE + "#include \"common/wire/decode.h\"\n", "server/batching/ may include"),
    ("server/batching/batcher.h", ONCE + "#include \"kernels/softmax.h\"\n", "server/batching/ may include"),
    ("server/batching/batcher.h", "#include <mutex>\n", "no #pragma once"),
    ("server/batching/batcher.h", ONCE + "#include \"../base/clock.h\"\n", "start at the root"),
    ("server/batching/batcher.h", ONCE + "#include \"clock.h\"\n", "start at the root"),
    ("common/base/clock.h", ONCE + "#include \"server/metrics/metrics.h\"\n", "common/base/ may include"),
    ("common/base/clock.h", ONCE + "#include \"common/wire/decode.h\"\n", "include each other"),
    ("server/metrics/metrics.cc", "#include \"common/wire/decode.h\"\n", "server/metrics/ may include"),
    ("server/execution/cuda/lane.cc", "#include \"common/wire/decode.h\"\n", "server/execution/ may include"),
    ("server/execution/cpu/lane.cc", "#include <cuda_runtime.h>\n", "CUDA may be"),
    ("server/rpc/unary.cc", "#include \"server/execution/lane.h\"\n", "server/rpc/ may include"),
    ("common/wire/decode.cc", "#include <grpcpp/grpcpp.h>\n", "gRPC or protobuf may be used only"),
    ("kernels/types.h", ONCE + "#include <thread>\n", "threads may be"),
    ("kernels/types.h", ONCE + "#include \"common/base/clock.h\"\n", "kernels/ may include"),
    ("client/softmax_client/softmax_client.h", ONCE + "#include <grpcpp/channel.h>\n", "knows neither gRPC"),
    ("client/cli/main.cc", "#include \"server/config/config.h\"\n", "client/ may include"),
    ("tests/server/base/clock_test.cc", "#include \"lab/bench/listen.h\"\n", "nobody includes the laboratory"),
    ("lab/bench/echo.cc", "#include <spdlog/spdlog.h>\n", "spdlog or fmt may be"),
    ("server/config/config.cc", "auto flag = \"--address\";\n" * 501, "500 is the limit"),
    ("server/config/config.cc", "auto flag = \"--address\";  //" + "x" * 100 + "\n", "120 is the limit"),
    ("server/config/config.cc", "auto flag = \"--address\"; \n", "ends in blanks"),
    ("README.md", "<<<<<<< main\n", "left by a merge"),
    ("server/config/config.cc", "// TO" + "DO: later\nauto flag = \"--address\";\n", "issue number"),
    ("server/config/config.cc", "auto flag = \"--address /ro" + "ot/x\";\n", "somebody's machine"),
    ("server/config/config.cc", "// ----" + "--------\nauto flag = \"--address\";\n", "a banner line"),
    ("server/config/config.cc", "class BatchMana" + "ger;\nauto flag = \"--address\";\n", "name it after"),
    ("tests/common/base/clock_test.cc", "#include <thread>\nvoid F() { std::this_thread::sleep_for(kLong); }\n",
     "clock_test.cc:2: sleep_for: wait by Eventually"),
    # Two such classes were linked into the server once: the destructor of one ran on objects of the other.
    ("server/batching/shard.h", ONCE + "namespace softmax::server {\nclass Shard {\n};\n}\n",
     "softmax::server::Shard: "),
    ("server/batching/shard.h", ONCE + "namespace softmax {\nnamespace server {\nstruct Shard {};\n}\n}\n",
     "softmax::server::Shard: defined in server/batching/shard.h and in server/metrics/shard.h"),
    ("server/batching/shard.cc",
     "void F() { G(\"{\"); }\nnamespace softmax::server {\nenum class Shard : int { kA };\n}\n",
     "softmax::server::Shard: "),
    ("common/base/shard.h", ONCE + "namespace softmax::server {\nstruct Shard {};\n}\n", "softmax::server::Shard: "),
    ("client/shard.cc", "namespace softmax {\nstruct server::Shard::Part {};\n}\n", "softmax::server::Shard::Part: "),
    ("server/config/ConfigFile.cc", "int x;\n", "snake_case"),
    ("README.md", "`server/gone.cc`\n", "which does not exist"),
    ("README.md", "`common/gone.cc`\n", "which does not exist"),
    ("README.md", "`--no-such-flag`\n", "which no program has"),
    ("README.md", "`softmax_gone_total`\n", "which the server does not have"),
    ("CONTRIBUTING.md", "`server/gone.cc`\n", "which does not exist"),
    ("server/base/log.cc", "#include <spdlog/spdlog.h>\n// As fields.h and base/gone.h have it.\n",
     "a comment names base/gone.h, which does not exist"),
    ("scripts/gone.sh", "# See gone_too.sh and scripts/gone.sh.\n", "names gone_too.sh, which"),
    ("server/metrics/metrics.cc", "auto names = {\"softmax_rows_total\", \"softmax_slabs\"};\n", "lacks softmax_slabs"),
    ("docs/reference.md", REFERENCE + "| `process_gone` | gauge | Nothing |\n", "has process_gone, which the code"),
    ("docs/reference.md", REFERENCE.replace("| `softmax_", "Rows: `softmax_"), "lacks softmax_rows_total"),
    ("docs/reference.md", REFERENCE.replace("server\n\n", "server\n\n| `--gone` | 1 | Gone |\n"), "has --gone, which"),
    ("client/cli/cli_options.cc", "auto flags = {\"--address\", \"--new\"};\n", "softmax-client\" lacks --new"),
    ("client/loadgen/plan/option_flags.cc", "int none;\n", "softmax-loadgen\" has --address, which the code"),
    ("docs/stray.md", "Nobody finds this page.\n", "docs/README.md does not link to it"),
    ("docs/measurements/stray.md", "Nobody finds this page.\n", "docs/measurements/README.md does not link to it"),
    ("docs/README.md", "[Tables](reference.md)\n", "docs/measurements/README.md: docs/README.md does not link to it"),
    ("README.md", "[more](docs/gone.md#part)\n", "links to docs/gone.md, which does not exist"),
    ("docs/reference.md", "wide " * 30 + "\n" + REFERENCE, "150 columns outside a table"),
    ("docs/reference.md", "- an item\n\n    " + "wide " * 30 + "\n\n" + REFERENCE, "columns outside a table"),
    ("docs/reference.md", "A line\n    " + "wide " * 30 + "\n" + REFERENCE, "columns outside a table"),
    ("README.md", "word " * 1301 + "\n", "1300 is the limit"),
]


def _problems(check, files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as opened:
                opened.write(text)
        return check(root)


def run(check):
    failures = [f"self-test: the good tree is blamed: {problem}" for problem in _problems(check, GOOD)]
    for path, text, expected in BAD:
        found = _problems(check, {**GOOD, path: text})
        if not any(expected in problem for problem in found):
            failures.append(f"self-test: {path} with {text[:60]!r} should lead to {expected!r}, but led to {found}")
    if not failures:
        print(f"style self-test: {len(BAD)} broken trees were all found out")
    return failures
