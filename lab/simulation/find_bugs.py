#!/usr/bin/env python3
"""Puts faults into copies of the batching (bugs.py), one at a time, and lets the simulator look for each.
find_bugs.py [--seconds N] [--only PART-OF-A-NAME]: a line for each; exit code 1 when one was not found."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from bugs import BUGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [f"{folder}/{name}.cc" for folder, names in {
    "tests/simulation": ("world", "fates", "script", "shrink", "main"),
    "server/batching": ("admission_queue", "arena", "backlog", "batch", "batcher", "charge"),
    "server/execution": ("devices", "watched_lane", "least_loaded_lane", "topology"),
    "common/base": ("core_set", "usable_cores"),
    "server/base": ("receive_pool",)}.items() for name in names]
FOLDERS = ["common", "server", "tests/simulation", "kernels"]
RIGHT, WRONG = ".o", ".wrong.o"


def compile_all(folder, sources, ending):
    """Their object files, each beside its source."""
    for source in sources:
        subprocess.run(["g++", "-std=c++20", "-O2", "-I.", "-c", source, "-o", source + ending], cwd=folder, check=True)


def link(folder, changed):
    libraries = subprocess.run(["pkg-config", "--libs", "absl_status", "absl_strings"], capture_output=True, text=True,
                               check=True).stdout.split()
    objects = [source + (WRONG if source in changed else RIGHT) for source in SOURCES]
    subprocess.run(["g++", *objects, "-o", "simulation", *libraries, "-lpthread"], cwd=folder, check=True)


def look_for(folder, seconds):
    """(the checker that found it, how long it took); the checker is empty: none did."""
    began = time.monotonic()
    command = ["./simulation", "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
                              timeout=seconds * 20 + 60)
    except subprocess.TimeoutExpired as slow:
        text = (slow.stdout or b"").decode(errors="replace")
        found = re.search(r"^seed \d+: ([^:]+):", text, re.M)
        return (found[1] if found else "it does not end"), time.monotonic() - began
    found = re.search(r"^seed (\d+): ([^:]+):", done.stdout, re.M)
    fewest = re.search(r"show it, (\d+) of", done.stdout)
    took = time.monotonic() - began
    if found:
        return f"{found[2]} (seed {found[1]}, {fewest[1] if fewest else '?'} actions)", took
    return ("a crash" if done.returncode < 0 else ""), took


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            shutil.copytree(ROOT / name, pathlib.Path(folder) / name, ignore=shutil.ignore_patterns("*.cu*"))
        compile_all(folder, SOURCES, RIGHT)
        for name, origin, path, right, wrong in BUGS:
            if arguments.only not in name:
                continue
            file = pathlib.Path(folder) / path
            text = file.read_text(encoding="utf-8")
            if text.count(right) != 1:
                sys.exit(f"{path} has {text.count(right)} times what {name!r} replaces; bugs.py has to follow the code")
            file.write_text(text.replace(right, wrong), encoding="utf-8")
            changed = [path] if path.endswith(".cc") else SOURCES
            compile_all(folder, changed, WRONG)
            link(folder, changed)
            found, took = look_for(folder, arguments.seconds)
            missed += not found
            print(f"{name:68} {origin:24} {took:6.1f} s  {found or 'NOT FOUND'}", flush=True)
            file.write_text(text, encoding="utf-8")
    print(f"{missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
