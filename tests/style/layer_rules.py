"""Who may include whom."""
import re

from tree import is_code

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Folder -> the prefixes of our own headers that may be included there; the longest matching folder decides. A header
# is always allowed its own folder. None: everything.
MAY_INCLUDE = {
    "kernels/": ("kernels/",),
    "common/base/": (),
    "common/wire/": ("common/base/", "kernels/operations.h", "kernels/types.h"),
    "server/base/": ("common/base/",),
    "server/config/": ("common/base/", "server/base/"),
    "server/metrics/": ("common/base/", "server/base/"),
    "server/batching/": ("common/base/", "common/wire/tensor_spec.h", "server/base/", "server/metrics/metrics.h",
                         "kernels/operations.h", "kernels/types.h"),
    "server/execution/": ("common/base/", "server/base/", "server/metrics/metrics.h", "server/batching/", "kernels/"),
    "server/regions/": ("common/base/", "server/base/"),
    "server/rpc/": ("common/", "server/base/", "server/metrics/metrics.h", "server/batching/",
                    "server/regions/registry.h", "kernels/operations.h", "kernels/types.h"),
    "server/rpc/security/": ("common/base/", "server/base/"),
    "server/rpc/guard/": ("common/base/", "server/base/"),
    "server/rpc/accept/": ("common/base/", "server/base/", "server/batching/", "server/rpc/guard/",
                           "server/rpc/security/"),
    "server/rpc/oip/": ("server/rpc/", "common/", "server/base/", "server/metrics/metrics.h", "server/batching/",
                        "kernels/operations.h", "kernels/types.h", "kernels/reference.h"),
    "server/rpc/health/": ("common/base/",),
    "server/": ("server/", "common/", "kernels/"),
    "client/": ("client/", "common/", "kernels/operations.h", "kernels/types.h", "kernels/reference.h"),
    "tests/": None,
    "lab/": None,
}

OURS = ("client/", "common/", "kernels/", "lab/", "proto/", "server/", "tests/")
# The laboratory: it may include everything, and nobody includes it.
LAB = "lab/"

# A library's headers -> the places that may include them (prefixes), or, with "not", the places that may not.
LIBRARIES = [
    ("CUDA", re.compile(r"^(cuda|cub/|cooperative_groups|nv/|cooperative)"),
     ("kernels/cuda/", "kernels/softmax.h", "kernels/bench/", "server/execution/cuda/", "tests/", LAB)),
    ("prometheus-cpp", re.compile(r"^prometheus/"), ("server/metrics/", "tests/", LAB)),
    ("gRPC or protobuf", re.compile(r"^(grpc(pp)?/(?!health/v1)|google/protobuf/|grpc\.h)"),
     ("server/rpc/", "server/main", "server/app/", "client/", "tests/", LAB)),
    ("the generated contract", re.compile(r"\.pb\.h$"),
     ("server/rpc/", "server/regions/", "server/main", "server/app/", "client/", "tests/", LAB)),
    ("spdlog or fmt", re.compile(r"^(spdlog|fmt)/"), ("server/base/log.cc",)),
    ("CLI11", re.compile(r"^CLI/"),
     ("common/base/help_formatter.cc", "server/config/", "server/main", "client/", "kernels/bench/", "tests/", LAB)),
    ("Highway", re.compile(r"^hwy/"), ("kernels/cpu/", "kernels/bench/", "tests/", LAB)),
    # ThreadSanitizer cannot see into the distribution's abseil, so its locks look like races.
    ("abseil's locks", re.compile(r"^absl/synchronization/"),
     ("common/base/process_settings.h", "server/rpc/", "server/main", "client/", "tests/", LAB)),
    ("threads", re.compile(r"^(thread|mutex|condition_variable|future|shared_mutex)$"),
     ("common/base/", "server/", "client/", "tests/", LAB, "kernels/bench/")),
]

# Take up to 14 s of compiling wherever they are included, and a header carries them on.
IN_NO_HEADER = [
    ("CLI11", re.compile(r"^CLI/")),
    ("nlohmann/json (json_fwd.hpp may be)", re.compile(r"^nlohmann/(?!json_fwd\.hpp$)")),
]

# Files that promise more than their folder does.
PUBLIC_CLIENT_HEADERS = re.compile(r"^client/softmax_client/(softmax_client|options|region|types)\.h$")
WIRE = re.compile(r"^common/wire/")
GRPC_OR_PROTOBUF = re.compile(r"^(grpc|google/protobuf/|softmax/v1/)|\.pb\.h$")


def _own_rule(path):
    matching = [folder for folder in MAY_INCLUDE if path.startswith(folder)]
    return max(matching, key=len) if matching else None


def _check_own(path, target):
    if target.startswith(LAB) and not path.startswith(LAB):
        return f"{path}: includes {target}: nobody includes the laboratory"
    folder = _own_rule(path)
    if folder is None or MAY_INCLUDE[folder] is None:
        return None
    if target.startswith(folder) or target.startswith(MAY_INCLUDE[folder]):
        return None
    return f"{path}: includes {target}, but {folder} may include only " + ", ".join((folder,) + MAY_INCLUDE[folder])


def _check_library(path, target):
    for name, headers, places in LIBRARIES:
        if headers.search(target) and not path.startswith(places):
            return f"{path}: includes <{target}>: {name} may be used only in " + ", ".join(places)
    for name, headers in IN_NO_HEADER:
        if headers.search(target) and path.endswith((".h", ".cuh")):
            return f"{path}: includes <{target}>: {name} may be included in no header"
    if (PUBLIC_CLIENT_HEADERS.match(path) or WIRE.match(path)) and GRPC_OR_PROTOBUF.search(target):
        return f"{path}: includes <{target}>: this file knows neither gRPC nor protobuf"
    return None


def _check_file(path, text):
    problems = []
    # Highway compiles its -inl.h files once for every target, with a guard of its own.
    once = "HWY_TARGET_TOGGLE" if path.endswith("-inl.h") else "#pragma once"
    if path.endswith((".h", ".cuh")) and once not in text:
        problems.append(f"{path}: has no {once}")
    for bracket, target in INCLUDE.findall(text):
        if bracket == '"' and ("../" in target or "/" not in target):
            problems.append(f'{path}: includes "{target}": includes start at the root of the tree')
        problems.append(_check_own(path, target) if target.startswith(OURS) else _check_library(path, target))
    return [problem for problem in problems if problem]


def check(files):
    problems = []
    for path, text in files.items():
        if is_code(path):
            problems += _check_file(path, text)
    return problems
