#!/usr/bin/env python3
"""clang-tidy over every source of server/, client/, common/ and kernels/ that build/lint compiles; findings are errors.
The planners of kernels/cuda are left out: they count in int what a grid or a block has, and a test compiles them here
only beside a stand-in for CUDA's headers.

Like the compiler there, it reads the sources of a target by eights: most of a source's time goes to the headers, which
are the same ones. What passed is not read again until a source, a header of ours that it includes, its compiler's
arguments or .clang-tidy change; build/lint/passed/ holds a stamp for each such state.

    lint.py [PATH...]    all sources, or those of the targets below these paths
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/lint"
OURS = ("server/", "client/", "common/", "kernels/")
LEFT_OUT = ("kernels/cuda/",)
# Includes start at the root of the tree (tests/style), so a quoted path is a file of ours or a generated one. Macros
# name some, too: HWY_TARGET_INCLUDE.
QUOTED_PATH = re.compile(rb'"([\w./-]+/[\w.-]+\.(?:h|cc))"')


def place(file):
    """Relative to the tree, or to the build for what CMake wrote there: the sources of a target by eights."""
    path = os.path.relpath(file, BUILD)
    return os.path.relpath(file, ROOT) if path.startswith("..") else path


@functools.lru_cache(maxsize=None)
def read(path):
    """The file's content and the files it names, from the tree or generated; empty: nobody has it."""
    for folder in (ROOT, BUILD, BUILD / "proto/gen"):
        file = folder / path
        if file.is_file():
            content = file.read_bytes()
            return content, sorted(name.decode() for name in set(QUOTED_PATH.findall(content)))
    return b"", []


def state(path, command, settings):
    """A hash of everything of ours that clang-tidy sees of this source."""
    digest = hashlib.sha256(settings + command.encode())
    seen, left = {path}, [path]
    while left:
        name = left.pop()
        content, named = read(name)
        digest.update(name.encode() + b"\0" + content)
        left += [other for other in named if other not in seen]
        seen.update(named)
    return digest.hexdigest()


def lint(path, stamp):
    """What clang-tidy says of a source; empty: nothing."""
    if stamp.exists():
        return ""
    source = ROOT / path if (ROOT / path).is_file() else BUILD / path
    done = subprocess.run(["clang-tidy", "-quiet", f"--config-file={ROOT}/.clang-tidy", "-p", BUILD, source], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stdout + done.stderr
    stamp.touch()
    return ""


def main():
    wanted = tuple(sys.argv[1:]) or OURS
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    settings = version + (ROOT / ".clang-tidy").read_bytes()
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    commands = {place(entry["file"]): entry["command"] for entry in entries}
    passed = BUILD / "passed"
    passed.mkdir(exist_ok=True)
    stamps = {path: passed / state(path, command, settings)
              for path, command in sorted(commands.items())
              if path.startswith(OURS) and path.startswith(wanted) and not path.startswith(LEFT_OUT)
              and read(path)[0]}  # not what is made by a build
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        found = 0
        for text in filter(None, threads.map(lint, stamps, stamps.values())):
            found += 1
            print(text, flush=True)
    print(f"lint: {len(stamps)} compilations, {found} with findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
