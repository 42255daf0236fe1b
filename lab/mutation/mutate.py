#!/usr/bin/env python3
"""Do the tests notice a changed line? A sample of changes is compiled into one copy of the product, in build/mutation,
as choices that a process makes at its start; each is tried with the tests that reach it.

    mutate.py build [--seed 1] [--each 40] [--modules common/wire,...] [--jobs 2]
    mutate.py run [--minutes 60] [--again]
    mutate.py report

`build` drops what does not compile: a change in a constant expression is none that a process can choose. `run` goes on
where it was stopped; --again tries once more what survived. A mutant is killed when a test that passes without it fails
with it, twice, or does not end; `unreached` ones are survivors whose line no test runs.
"""
import argparse
import collections
import contextlib
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import operators

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/mutation"
TREE = WORK / "tree"
BUILD = TREE / "build/dev"
INCLUDE = f'#include "{ROOT}/lab/mutation/mutant.h"\n#line 1\n'
# A module, and the test programs that are to see its mutants: its own first. A filter belongs to a program.
MODULES = {
    "common/base": ["common_test", "server_test", "client_test"],
    "common/wire": ["wire_test", "client_test"],
    "server/config": ["server_test", "end_to_end_test ServerInfo.*:Start.*"],
    "server/base": ["base_test", "receive_malloc_test", "server_test", "end_to_end_test Answers.*"],
    "server/metrics": ["metrics_test", "server_test", "end_to_end_test MetricsPage.*"],
    "server/batching": ["batching_test", "simulation_test", "end_to_end_test Answers.*:Hostile.*:UnreadStreams.*"],
    "server/execution": ["execution_test", "cuda_lanes_test", "end_to_end_test Answers.*:Devices.*"],
    "server/regions": ["regions_test", "server_test", "end_to_end_test RegionCalls*:RegionsSocket*"],
    "server/rpc": ["server_test", "end_to_end_test Connections.*:ControlCalls.*:FirstMessages*:HealthAddress.*:"
                   "LongMessages.*:Oip.*:OipControl.*:OipFiles.*:SecureTest.*:SmallAnswers.*:TlsFloods.First*:Tokens.*:"
                   "Traces.ARequest*:UnreadStreams.*"],
    "server/app": ["server_test", "end_to_end_test Devices.*:Drain.*:Faults.ADevice*:HealthAddress.*:MetricsPage.*:"
                   "OipControl.*:QueueThreads.*:RegionsSocket.*:ServerInfo.*:Tokens.*:Traces.ARequest*"],
    "client/softmax_client": ["client_rules_test", "client_test",
                              "end_to_end_test Answers.*:SharedTensors.*:AutomaticRegions.*"],
    "client/loadgen": ["loadgen_test"],
    "client/cli": ["client_test"],
    "kernels/cpu": ["kernels_test -*RowSearch*"],
    "kernels/cuda/plan": ["kernels_test BetweenTest.*:GeneralPlanTest.*:RoomsTest.*:ShapesTest.*"],
}
SPARE = 2  # sampled for one that is tried: some do not compile
SLOWEST = 60  # seconds; a test that takes longer is not used
CHUNK = 5  # seconds of tests that run in one process before the next


def read(name, default):
    path = WORK / name
    return json.loads(path.read_text()) if path.exists() else default


def write(name, value):
    path = WORK / name
    path.with_suffix(".new").write_text(json.dumps(value, indent=0))
    path.with_suffix(".new").rename(path)


def key(mutant):
    return "|".join(str(mutant[part]) for part in ("file", "line", "before", "after"))


def outcome(mutant, results):
    result = results.get(key(mutant), {})
    if not mutant["tried"] or not result:
        return "spare" if mutant["compiles"] else "not compiled"
    return "killed" if "by" in result else "survived" if result["reached"] else "unreached"


def sample(seed, each, module):
    """As many of each operator, in turn."""
    every = []
    for path in sorted((ROOT / module).rglob("*")):
        if path.suffix in (".cc", ".h"):
            file = path.relative_to(ROOT).as_posix()
            for number, operator, before, after, pieces in operators.of_text(path.read_text()):
                every.append(dict(module=module, file=file, line=number, operator=operator, before=before, after=after,
                                  pieces=pieces))
    random.Random(f"{seed} {module}").shuffle(every)
    turns = collections.Counter()
    for mutant in every:
        mutant["turn"] = turns[mutant["operator"]]
        turns[mutant["operator"]] += 1
    return sorted(every, key=lambda mutant: mutant["turn"])[:SPARE * each]


def copy_tree(mutants):
    """Makes the copy what this checkout is, mutants in it; what is the same there stays untouched."""
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    changes = collections.defaultdict(list)
    for number, mutant in enumerate(mutants):
        if mutant["compiles"]:
            changes[mutant["file"]].append((number, mutant["pieces"]))
    files = {file for file in files if (ROOT / file).is_file()}
    for folder, folders, names in os.walk(TREE):
        folders[:] = [name for name in folders if pathlib.Path(folder, name) != TREE / "build"]
        for path in (pathlib.Path(folder, name) for name in names):
            if path.relative_to(TREE).as_posix() not in files:
                path.unlink()
    for file in files:
        source, target = ROOT / file, TREE / file
        content = source.read_bytes()
        if file in changes:
            text, crossing = operators.apply(content.decode(), changes[file])
            for number in crossing:
                mutants[number]["compiles"] = False
            content = (INCLUDE + text).encode()
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copymode(source, target)


def drop_broken(mutants, output, build=BUILD, tree=TREE):
    """Mutants on the lines of errors, or else on those that the errors' notes name, or else all of a file's."""
    at = collections.defaultdict(set)
    for number, mutant in enumerate(mutants):
        if mutant["compiles"]:
            for line in range(mutant["first"], mutant["first"] + mutant["lines"] + 1):
                at[mutant["file"], line].add(number)
            at[mutant["file"], None].add(number)

    def named(block, pattern):
        places = [(os.path.relpath(os.path.normpath(build / file), tree), int(line))
                  for file, line in re.findall(pattern, block, re.M)]
        return set().union(*(at[place] for place in places)), {file for file, _ in places}

    broken = set()
    blocks = re.split(r"(?m)^(?=\S+:\d+:\d+: (?:fatal )?error:)", output)[1:]
    # Names are missing where the line that declares them has an error.
    for block in [block for block in blocks if "was not declared" not in block.splitlines()[0]] or blocks:
        found, _ = named(block.splitlines()[0], r"^(\S+?):(\d+):")
        around, files = named(block, r"([\w./-]+\.(?:cc|h)):(\d+)[:,]")
        broken |= found or around or set().union(*(at[file, None] for file in files))
    for number in broken:
        mutants[number]["compiles"] = False
    return broken


def compile_tree(mutants, targets, jobs):
    if not (BUILD / "build.ninja").exists():
        flags = "-DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_FLAGS_RELWITHDEBINFO='-O1 -w -Wno-narrowing -DNDEBUG'"
        subprocess.run(["bash", "-c", f". scripts/common.sh && choose_cuda && configure dev {flags}"], cwd=TREE,
                       check=True, stdout=subprocess.DEVNULL)
    while True:
        done = subprocess.run(["cmake", "--build", str(BUILD), "-j", str(jobs), "--target", *targets, "--", "-k", "0"],
                              capture_output=True, text=True)
        (WORK / "build.log").write_text(done.stdout + done.stderr)
        if done.returncode == 0:
            return
        broken = drop_broken(mutants, done.stdout + done.stderr)
        if not broken:
            sys.exit(f"{WORK}/build.log: this is no mutant's fault")
        print(f"{len(broken)} do not compile", flush=True)
        write("mutants.json", mutants)
        copy_tree(mutants)


def build(arguments):
    WORK.mkdir(parents=True, exist_ok=True)
    dropped = {key(mutant) for mutant in read("mutants.json", []) if not mutant["compiles"]}
    mutants = [mutant for module in arguments.modules.split(",")
               for mutant in sample(arguments.seed, arguments.each, module)]
    for mutant in mutants:
        text = (ROOT / mutant["file"]).read_text()
        begin, end = min(p[0] for p in mutant["pieces"]), max(p[1] for p in mutant["pieces"])
        mutant["first"], mutant["lines"] = text.count("\n", 0, begin) + 1, text.count("\n", begin, end)
        mutant["compiles"] = key(mutant) not in dropped
    copy_tree(mutants)
    targets = {test.split()[0] for module in arguments.modules.split(",") for test in MODULES[module]}
    compile_tree(mutants, sorted(targets), arguments.jobs)
    tried = collections.Counter()
    for mutant in mutants:
        tried[mutant["module"]] += mutant["compiles"]
        mutant["tried"] = mutant["compiles"] and tried[mutant["module"]] <= arguments.each
    write("mutants.json", mutants)
    print(f"{len(mutants)} sampled, {sum(m['compiles'] for m in mutants)} compile, {sum(m['tried'] for m in mutants)} "
          "will be tried")


class Programs:
    """Test programs of the copy, run as ctest runs them."""

    def __init__(self):
        shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, check=True, capture_output=True, text=True)
        self.known = {}
        for test in json.loads(shown.stdout)["tests"]:
            if "command" in test:
                properties = {entry["name"]: entry["value"] for entry in test["properties"]}
                variables = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
                self.known.setdefault(pathlib.Path(test["command"][0]).name, (
                    test["command"][0], properties.get("WORKING_DIRECTORY", BUILD),
                    {name: value for name, value in variables.items() if not name.startswith("GTEST_")}))

    def run(self, program, arguments, limit, **variables):
        """(exit status, output); the status is None where the time is over. Nothing that it started lives on."""
        command, folder, environment = self.known[program]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen([command, *arguments], cwd=folder, start_new_session=True, stdout=output,
                                       stderr=output, env={**os.environ, **environment, **variables})
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            return status, output.read()


def tests_of(programs, program, wanted):
    suite, names = "", []
    for line in programs.run(program, ["--gtest_list_tests", f"--gtest_filter={wanted or '*'}"], 60)[1].splitlines():
        if line.startswith("  "):
            names.append(suite + line.split("#")[0].strip())
        elif line.split("#")[0].strip().endswith("."):
            suite = line.split("#")[0].strip()
    names = [name for name in names if "DISABLED_" not in name]
    return names or sys.exit(f"{program} {wanted}: runs no test")


def reach(programs, pool, test):
    """What each test of a program asks for and how long it takes, once a build: {name: (seconds, [mutants])}."""
    program, _, wanted = test.partition(" ")
    built = pathlib.Path(programs.known[program][0]).stat().st_mtime
    known = read(f"reached/{program}.json", {})
    tests = known["tests"] if known.get("built") == built else {}

    def one(name):
        with tempfile.NamedTemporaryFile() as asked:
            began = time.monotonic()
            status, _ = programs.run(program, [f"--gtest_filter={name}"], SLOWEST, MUTANTS_ASKED=asked.name)
            numbers = sorted({int(line) for line in pathlib.Path(asked.name).read_text().split()})
            return name, (time.monotonic() - began, numbers if status == 0 else None)

    wanted_tests = tests_of(programs, program, wanted)
    missing = [name for name in wanted_tests if name not in tests]
    tests.update(pool.map(one, missing))
    for name in missing:
        if tests[name][1] is None:
            print(f"{program} {name}: fails or takes {SLOWEST} s without a mutant; not used", flush=True)
    (WORK / "reached").mkdir(exist_ok=True)
    write(f"reached/{program}.json", {"built": built, "tests": tests})
    return {name: tests[name] for name in wanted_tests if tests[name][1] is not None}


def killer(programs, program, tests, number):
    """The test among these, {name: seconds}, that fails twice with the mutant, or None."""
    left = sorted(tests, key=tests.get)
    while left:
        chunk, seconds = [], 0
        while left and (not chunk or seconds + tests[left[0]] < CHUNK):
            seconds += tests[left[0]]
            chunk.append(left.pop(0))
        while chunk:
            limit = 10 + 5 * seconds
            status, output = programs.run(program, ["--gtest_fail_fast", f"--gtest_filter={':'.join(chunk)}"], limit,
                                          MUTANT=str(number))
            if status == 0:
                break
            name = re.findall(r"\[ RUN      \] (\S+)", output)[-1:] or chunk[:1]
            if programs.run(program, [f"--gtest_filter={name[0]}"], limit, MUTANT=str(number))[0] != 0:
                return name[0]
            chunk.remove(name[0])
    return None


STAGES = ("own", "mapped", "whole servers")


def stage_of(place, test):
    return STAGES[2 if test.startswith("end_to_end") else min(place, 1)]


def run(arguments):
    mutants = read("mutants.json", [])
    if not mutants or "tried" not in mutants[0]:
        sys.exit("no build is finished: mutate.py build")
    programs = Programs()
    results = read("results.json", {})
    end = time.monotonic() + 60 * arguments.minutes
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for stage in STAGES:
            waiting = []
            for number, mutant in enumerate(mutants):
                result = results.get(key(mutant), {})
                if mutant["tried"] and mutant["module"] in arguments.modules.split(",") and not (
                        "by" in result or (stage in result.get("stages", []) and not arguments.again)):
                    waiting.append((number, mutant))
            maps = {}
            for module in dict.fromkeys(mutant["module"] for _, mutant in waiting):
                tests = [test for place, test in enumerate(MODULES[module]) if stage == stage_of(place, test)]
                maps[module] = {test.split()[0]: reach(programs, pool, test) for test in tests}

            def one(entry):
                number, mutant = entry
                if time.monotonic() > end:
                    return
                result = {"stages": [], **results.get(key(mutant), {})}
                for program, tests in maps[mutant["module"]].items():
                    those = {name: seconds for name, (seconds, asked) in tests.items() if number in asked}
                    result["reached"] = bool(those) or result.get("reached", False)
                    by = killer(programs, program, those, number)
                    if by:
                        result["by"] = f"{program} {by}"
                        break
                results[key(mutant)] = {**result, "stages": [*result["stages"], stage]}
                print(f"{stage}: {result.get('by', 'lives')} {key(mutant)}", flush=True)

            waiting.sort(key=lambda entry: (entry[1]["turn"], entry[0]))
            for _ in pool.map(one, waiting):
                write("results.json", dict(results))
    report(arguments)


def report(_):
    mutants, results = read("mutants.json", []), read("results.json", {})
    print("| module | killed | survived | unreached | not compiled | score |\n| --- | --- | --- | --- | --- | --- |")
    for module in dict.fromkeys(mutant["module"] for mutant in mutants):
        counts = collections.Counter(outcome(mutant, results) for mutant in mutants if mutant["module"] == module)
        tried = counts["killed"] + counts["survived"] + counts["unreached"]
        print(f"| {module} | {counts['killed']} | {counts['survived']} | {counts['unreached']} | "
              f"{counts['not compiled']} | {counts['killed'] / max(tried, 1):.2f} |")
    for mutant in mutants:
        if outcome(mutant, results) in ("survived", "unreached"):
            print(f"{outcome(mutant, results)} {mutant['file']}:{mutant['line']}: `{mutant['before']}` -> "
                  f"`{mutant['after']}`")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["build", "run", "report"])
    parser.add_argument("--seed", default="1", help="of the sample")
    parser.add_argument("--each", type=int, default=40, help="mutants of each module")
    parser.add_argument("--modules", default=",".join(MODULES), help="these only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="side by side")
    parser.add_argument("--minutes", type=float, default=60, help="stop after")
    parser.add_argument("--again", action="store_true", help="what survived, once more")
    arguments = parser.parse_args()
    for module in arguments.modules.split(","):
        if module not in MODULES:
            parser.error(f"--modules: there is no {module}; there are {', '.join(MODULES)}")
    {"build": build, "run": run, "report": report}[arguments.command](arguments)


if __name__ == "__main__":
    main()
