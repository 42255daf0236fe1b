"""The library below the package: that it is called as its header says, alone in the process or not."""
import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import softmax_client
from softmax_client import _library

HEADER = (pathlib.Path(__file__).parents[3] / "client/c/softmax.h").read_text(encoding="utf-8")
CODE = re.sub(r"//.*", "", HEADER)
NUMBERS = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32,
           "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "double": ctypes.c_double}


def kind(declared):
    """How ctypes has to pass it: a type of numbers, or "pointer"."""
    if "*" in declared or "[" in declared or "softmax_token" in declared or "softmax_hook" in declared:
        return "pointer"
    return next(NUMBERS[word] for word in declared.split() if word in NUMBERS)


def kind_of(given):
    return given if given in NUMBERS.values() else "pointer"


@pytest.mark.parametrize("name", ["client_options", "request", "stream_options"])
def test_structures_are_the_headers(name):
    body = re.search(rf"typedef struct softmax_{name} {{(.*?)}}", CODE, re.DOTALL)[1]
    fields = [(line.split()[-1].strip("*"), kind(line)) for line in body.split(";") if line.strip()]
    mine = getattr(_library, "".join(part.title() for part in name.split("_")))
    assert [(field, kind_of(given)) for field, given in mine._fields_] == fields


def test_functions_are_the_headers():
    declared = re.findall(r"^(\w+\**) ?(\**)softmax_(\w+)\(([^)]*)\);", CODE, re.MULTILINE)
    assert len(declared) + len(re.findall(r"^const char\* softmax_", CODE, re.MULTILINE)) > 30
    declared += re.findall(r"^const (char)(\*) softmax_(\w+)\(([^)]*)\);", CODE, re.MULTILINE)
    seen = set()
    for result, star, name, arguments in declared:
        if name not in _library._FUNCTIONS:
            continue
        returned, *mine = _library._FUNCTIONS[name]
        wanted = [] if arguments == "void" else [kind(argument) for argument in arguments.split(",")]
        assert [kind_of(given) for given in mine] == wanted, name
        if result == "void" and not star:
            assert returned is None, name
        else:
            assert kind_of(returned) == kind(result + star), name
        seen.add(name)
    assert seen == set(_library._FUNCTIONS)


def python(program, **more):
    return subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60,
                          check=False, **more)


def test_what_is_missing_is_said(tmp_path):
    here = pathlib.Path(softmax_client.__file__).parent
    shutil.copytree(here, tmp_path / "softmax_client", ignore=shutil.ignore_patterns("lib"))
    told = python("import softmax_client", env={"PYTHONPATH": str(tmp_path)}).stderr
    for words in ("ImportError: softmax_client cannot load its library", "libsoftmax_client.so", "glibc 2.36",
                  "this is Linux on x86_64 with glibc"):
        assert words in told, told


@pytest.mark.parametrize("program, words", [
    ("import sys; sys._is_gil_enabled = lambda: False; import softmax_client", "PYTHON_GIL=1"),
    ("""
try: import _interpreters as them
except ImportError: import _xxsubinterpreters as them
failed = them.run_string(them.create(), "import softmax_client")
raise SystemExit(str(failed))  # from Python 3.13 on nothing is raised
""", "main interpreter only")])
def test_interpreters_that_it_is_not_for_are_told(program, words):
    told = python(program).stderr
    assert words in told and "Segmentation" not in told, told


@pytest.mark.parametrize("first", ["grpc", "softmax_client"])
def test_grpcio_in_one_process(server, first):
    pytest.importorskip("grpc")
    told = python(f"""
import {first}
import grpc, softmax_client
import numpy as np
def answers():
    with softmax_client.Client("{server.address}") as client:
        return float(client.softmax(np.zeros((2, 4), np.float32)).sum())
def served():
    with grpc.insecure_channel("{server.address}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda b: b, lambda b: b)
        return check(b"", timeout=20)
assert answers() == 2 and served() == b"\\x08\\x01" and answers() == 2
with grpc.insecure_channel("{server.address}") as channel, softmax_client.Client("{server.address}") as client:
    for _ in range(20):
        client.softmax(np.zeros(3, np.float32))
        assert served() == b"\\x08\\x01"
print("both")
""")
    assert (told.returncode, told.stdout) == (0, "both\n"), told.stderr
