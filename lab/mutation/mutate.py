#!/usr/bin/env python3
"""Changes one line of the product at a time and looks whether its tests notice.

    mutate.py run --seed 1 --each 40 [--modules common/wire,...] [--minutes 60] [--out out/mutation.tsv]
    mutate.py report [--out out/mutation.tsv]

Works in a copy of this checkout's commit (--tree, made where it is missing), which it builds once; a run that was
stopped goes on. A mutant is killed when a test fails or does not end in time; `survived` ones name what no test sees.
"""
import argparse
import collections
import csv
import pathlib
import random
import subprocess
import sys
import time

import operators

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A module, and the test programs that are to see its mutants: its own first. A filter belongs to a program.
MODULES = {
    "common/base": ["common_test", "client_test"],
    "common/wire": ["wire_test", "client_test"],
    "server/config": ["server_test", "end_to_end_test Config*:ServerInfo*"],
    "server/base": ["base_test", "server_test", "end_to_end_test Answers.*"],
    "server/metrics": ["metrics_test", "server_test", "end_to_end_test Metrics*"],
    "server/batching": ["batching_test", "simulation_test", "end_to_end_test Answers.*:Hostile.*"],
    "server/execution": ["execution_test", "end_to_end_test Answers.*:Devices*"],
    "server/regions": ["regions_test", "end_to_end_test Region*"],
    "server/rpc": ["server_test", "simulation_test", "end_to_end_test -Replicas.*:Names.*:ConnectionLimits.*"],
    "server/app": ["server_test", "end_to_end_test ServerInfo*:Answers.*:Drain*:Metrics*"],
    "client/softmax_client": ["client_test", "end_to_end_test Answers.*:SharedTensors.*:AutomaticRegions.*"],
    "client/loadgen": ["loadgen_test"],
    "client/cli": ["client_test"],
    "kernels/cpu": ["kernels_test -*RowSearch*"],
    "kernels/cuda": ["kernels_test *Plan*:*Room*:*Shape*:*Between*:*Divisor*"],
}
FIELDS = ["file", "line", "operator", "before", "after", "result", "seconds", "by"]
SLOWEST_TEST = 300  # seconds; a mutant whose tests take longer hangs


def sources(tree, module):
    for path in sorted((tree / module).rglob("*")):
        if path.suffix == ".cc" or (path.suffix == ".h" and module != "kernels/cuda"):
            yield path


def mutants(tree, module):
    for path in sources(tree, module):
        for number, line in enumerate(path.read_text().splitlines()):
            for operator, changed in operators.of_line(line):
                yield path.relative_to(tree).as_posix(), number, operator, line, changed


def build(tree, targets, log):
    command = ["cmake", "--build", "build/dev", "--target", *targets]
    return subprocess.run(command, cwd=tree, stdout=log, stderr=log).returncode == 0


def program(tree, name):
    return next(path for path in (tree / "build/dev").rglob(name) if path.is_file() and path.stat().st_mode & 0o100)


def command_of(tree, test):
    name, _, tests_of_it = test.partition(" ")
    return [str(program(tree, name)), "--gtest_fail_fast", f"--gtest_filter={tests_of_it or '*'}"]


def runs_nothing(tree, test):
    listed = subprocess.run([*command_of(tree, test), "--gtest_list_tests"], capture_output=True, text=True, check=True)
    return not any(line.startswith("  ") for line in listed.stdout.splitlines())


def killer(tree, tests, log):
    """The first test program that fails, or None."""
    for test in tests:
        name, command = test.split()[0], command_of(tree, test)
        try:
            tried = subprocess.run(command, cwd=tree / "build/dev", stdout=log, stderr=log, timeout=SLOWEST_TEST)
            if tried.returncode != 0:
                return name
        except subprocess.TimeoutExpired:
            return f"{name} (hangs)"
    return None


def try_mutant(tree, tests, mutant, log):
    file, number, _, line, changed = mutant
    path = tree / file
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    assert lines[number].rstrip("\n") == line, f"{file}:{number + 1} is another line than was sampled"
    lines[number] = changed + "\n"
    path.write_text("".join(lines))
    try:
        for test in tests:
            if not build(tree, [test.split()[0]], log):
                return "not compiled", ""
            by = killer(tree, [test], log)
            if by:
                return "killed", by
        return "survived", ""
    finally:
        path.write_text(text)


def sample(tree, arguments):
    """As many of each module and of each operator, in turn, so that a run of any length is fair to all."""
    orders = []
    for module in arguments.modules.split(","):
        every = list(mutants(tree, module))
        random.Random(f"{arguments.seed} {module}").shuffle(every)
        turns = collections.Counter()
        order = []
        for mutant in every:
            order.append((turns[mutant[2]], mutant))
            turns[mutant[2]] += 1
        order.sort(key=lambda entry: entry[0])
        orders.append([(module, mutant) for _, mutant in order[:arguments.each]])
    return [entry for turn in range(arguments.each) for order in orders for entry in order[turn:turn + 1]]


def prepare(tree, modules):
    if not tree.exists():
        subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True)
    subprocess.run(["bash", "-c", ". scripts/common.sh && choose_cuda && configure dev"], cwd=tree, check=True,
                   stdout=subprocess.DEVNULL)
    targets = sorted({test.split()[0] for module in modules for test in MODULES[module]})
    if not build(tree, targets, None):
        sys.exit(f"{tree}: the tree does not build as it is")
    for module in modules:
        for test in MODULES[module]:
            if runs_nothing(tree, test):
                sys.exit(f"{test}: runs no test")
        by = killer(tree, MODULES[module], subprocess.DEVNULL)
        if by:
            sys.exit(f"{by}: fails without a mutant")


def read(out):
    if not out.exists():
        return []
    with out.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def run(arguments):
    tree = arguments.tree.resolve()
    modules = arguments.modules.split(",")
    prepare(tree, modules)
    known = {(row["file"], row["line"], row["after"]) for row in read(arguments.out)}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    new = not arguments.out.exists()
    end = time.monotonic() + 60 * arguments.minutes
    with arguments.out.open("a", newline="") as file, (arguments.out.parent / "mutation.log").open("w") as log:
        writer = csv.DictWriter(file, FIELDS, delimiter="\t")
        if new:
            writer.writeheader()
        for module, mutant in sample(tree, arguments):
            path, number, operator, line, changed = mutant
            if (path, str(number + 1), changed.strip()) in known:
                continue
            if time.monotonic() > end:
                break
            began = time.monotonic()
            result, by = try_mutant(tree, MODULES[module], mutant, log)
            writer.writerow(dict(zip(FIELDS, [path, number + 1, operator, line.strip(), changed.strip(), result,
                                              round(time.monotonic() - began), by])))
            file.flush()
            print(f"{result:12} {path}:{number + 1} {operator}: {changed.strip()}", flush=True)
    report(arguments)


def report(arguments):
    score = collections.defaultdict(collections.Counter)
    rows = read(arguments.out)
    for row in rows:
        module = next(module for module in MODULES if row["file"].startswith(module + "/"))
        score[module][row["result"]] += 1
    print("| module | killed | survived | not compiled | score |\n| --- | --- | --- | --- | --- |")
    for module, counts in score.items():
        tried = counts["killed"] + counts["survived"]
        print(f"| {module} | {counts['killed']} | {counts['survived']} | {counts['not compiled']} | "
              f"{counts['killed'] / max(tried, 1):.2f} |")
    for row in rows:
        if row["result"] == "survived":
            print(f"{row['file']}:{row['line']}: `{row['before']}` -> `{row['after']}`")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("--seed", default="1", help="of the sample")
    parser.add_argument("--each", type=int, default=40, help="mutants of each module")
    parser.add_argument("--modules", default=",".join(MODULES), help="these only")
    parser.add_argument("--minutes", type=float, default=60, help="stop after")
    folder = ROOT / "build/mutation"
    parser.add_argument("--tree", type=pathlib.Path, default=folder / "tree", help="the copy that is changed")
    parser.add_argument("--out", type=pathlib.Path, default=folder / "mutation.tsv", help="the results")
    arguments = parser.parse_args()
    for module in arguments.modules.split(","):
        if module not in MODULES:
            parser.error(f"--modules: there is no {module}; there are {', '.join(MODULES)}")
    {"run": run, "report": report}[arguments.command](arguments)


if __name__ == "__main__":
    main()
