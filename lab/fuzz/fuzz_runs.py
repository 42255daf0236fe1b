#!/usr/bin/env python3
"""Runs the fuzz targets in turn, one process at a time, until they have made a number of executions in all, and keeps a
line for each run in docs/measurements/fuzz.csv. Interrupted, it goes on where the lines end.

    fuzz_runs.py run --goal 100000000 --slice 60     # rounds without sanitizers and with ASan and UBSan in turn
    fuzz_runs.py coverage                            # which lines of each decoder the corpus reaches
    fuzz_runs.py keep                                # the smallest set of inputs that reaches as much, as new seeds
    fuzz_runs.py total                               # executions and crashes so far, by target
The builds must be there: cmake --preset fuzz (fuzz-fast, fuzz-coverage) and cmake --build build/fuzz (...).
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CSV = ROOT / "docs/measurements/fuzz.csv"
FOUND = ROOT / "build/fuzz-found"
FIELDS = ["date", "commit", "target", "build", "executions", "seconds", "corpus", "edges", "crashes"]
MAX_BYTES = {"config": 700, "metrics": 1000}  # others: 512
# A decoder of twenty lines needs no long runs; its share of the time.
SHARE = {"greeting": 0.05, "tokens": 0.25, "npy": 0.5}
# The files whose lines a target is there to reach.
DECODERS = {
    "wire": ["common/wire/contract.cc", "common/wire/cursor.cc", "common/wire/decode.cc",
             "common/wire/fault.cc", "common/wire/walk.cc"],
    "client_wire": ["client/softmax_client/wire.cc", "client/softmax_client/server_info.cc",
                    "client/softmax_client/fields.h", "common/wire/cursor.cc"],
    "oip": ["common/wire/contract.cc", "common/wire/cursor.cc", "common/wire/oip_decode.cc",
            "common/wire/oip_encode.cc", "common/wire/oip_walk.cc"],
    "config": ["server/config/config.cc", "server/config/flags.cc", "server/config/check.cc",
               "server/config/print.cc"],
    "greeting": ["server/rpc/accept/greeting.cc"],
    "metrics": ["client/loadgen/scrape/metrics_window.cc",
                "client/loadgen/scrape/server_metrics.cc", "client/loadgen/scrape/http_get.cc"],
    "npy": ["client/cli/npy.cc", "client/cli/text.cc"],
    "tokens": ["server/rpc/security/token_set.cc"],
    "values": ["server/config/values.cc", "client/softmax_client/target.cc", "common/base/address.cc",
               "common/base/duration.cc"],
}
DECODERS["stream"] = DECODERS["wire"]


def targets():
    return sorted(path.name for path in (ROOT / "tests/fuzz/corpus").iterdir())


def program(build, target):
    return ROOT / "build" / build / "tests/fuzz" / f"fuzz_{target}"


def seeds(build, target):
    """The folders of a target's seeds: those of the tree, and those that its build has made."""
    return [ROOT / "tests/fuzz/corpus" / target, ROOT / "build" / build / "tests/fuzz/made" / target]


def commit():
    text = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return text.stdout.strip()


def runs():
    if not CSV.exists():
        return []
    with CSV.open(newline="") as file:
        return list(csv.DictReader(file))


def executions(only=None):
    return sum(int(run["executions"]) for run in runs() if run["target"] in (only or targets()))


def append(run):
    new = not CSV.exists()
    with CSV.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(run)


def found(target):
    folder = FOUND / target
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fuzz(build, target, seconds):
    """One run. Returns its line; `crashes` is 1 when it ended by anything but its time."""
    artifacts = ROOT / "build/logs" / f"fuzz_{target}_"
    artifacts.parent.mkdir(parents=True, exist_ok=True)
    command = [program(build, target), f"-max_total_time={seconds}", f"-max_len={MAX_BYTES.get(target, 512)}",
               "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={artifacts}",
               found(target), *seeds(build, target)]
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env)
    count = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    edges = re.findall(r"cov: (\d+)", done.stderr)
    if done.returncode != 0:
        (artifacts.parent / f"fuzz_{target}_crash.log").write_text(done.stderr)
        print(done.stderr[-3000:], file=sys.stderr)
    # Without its last words (a crash prints none) a run counts nothing.
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"), "commit": commit(),
            "target": target, "build": build, "executions": int(count.group(1)) if count else 0, "seconds": seconds,
            "corpus": len(list(found(target).iterdir())), "edges": int(edges[-1]) if edges else 0,
            "crashes": int(done.returncode != 0)}


def run(goal, slice_seconds, only):
    while executions(only) < goal:
        round_number = sum(1 for line in runs() if line["target"] == (only or targets())[-1])
        build = "fuzz" if round_number % 2 == 1 else "fuzz-fast"
        for target in only or targets():
            seconds = max(3, int(slice_seconds * SHARE.get(target, 1)))
            line = fuzz(build, target, seconds)
            append(line)
            print(f"{line['date']} {target} {build}: {line['executions']} executions in {seconds} s, "
                  f"{line['crashes']} crashes; {executions(only)} in all", flush=True)
            if line["crashes"]:
                return 1
    return 0


def line_counts(report, decoders):
    """Lines of the decoders that could run, and those that did."""
    counted = {}
    for item in report["data"][0]["files"]:
        name = os.path.relpath(item["filename"], ROOT)
        if name in decoders:
            counted[name] = (item["summary"]["lines"]["count"], item["summary"]["lines"]["covered"])
    return counted


def coverage():
    out = ROOT / "build/fuzz-coverage/profiles"
    out.mkdir(parents=True, exist_ok=True)
    print("| target | decoder | lines | reached | |\n| --- | --- | --- | --- | --- |")
    for target in targets():
        binary = program("fuzz-coverage", target)
        raw, data = out / f"{target}.profraw", out / f"{target}.profdata"
        subprocess.run([binary, "-runs=0", f"-max_len={MAX_BYTES.get(target, 512)}", found(target),
                        *seeds("fuzz-coverage", target)], check=True, capture_output=True,
                       env=dict(os.environ, LLVM_PROFILE_FILE=str(raw)))
        subprocess.run(["llvm-profdata", "merge", "-sparse", raw, "-o", data], check=True)
        report = json.loads(subprocess.run(["llvm-cov", "export", "-summary-only", f"-instr-profile={data}", binary],
                                           check=True, capture_output=True, text=True).stdout)
        for name, (lines, reached) in sorted(line_counts(report, DECODERS[target]).items()):
            print(f"| {target} | `{name}` | {lines} | {reached} | {100 * reached / lines:.0f} % |", flush=True)


def keep(most):
    for target in targets():
        small = FOUND / f"{target}.small"
        shutil.rmtree(small, ignore_errors=True)
        small.mkdir(parents=True)
        subprocess.run([program("fuzz-fast", target), "-merge=1", f"-max_len={MAX_BYTES.get(target, 512)}", small,
                        *seeds("fuzz-fast", target), found(target)], check=True, capture_output=True)
        # libFuzzer names its finds by their hash; those that came from the seeds are there under their own names.
        known = {path.read_bytes() for folder in seeds("fuzz-fast", target) for path in folder.iterdir()}
        fresh = sorted((path for path in small.iterdir() if path.read_bytes() not in known),
                       key=lambda path: path.stat().st_size)[:most]
        for path in fresh:
            shutil.copy(path, ROOT / "tests/fuzz/corpus" / target / ("found_" + path.name[:12]))
        shutil.rmtree(small)
        print(f"{target}: {len(known)} seeds, {len(fresh)} added")


def total():
    by_target = {}
    for line in runs():
        row = by_target.setdefault(line["target"], {"fuzz": 0, "fuzz-fast": 0, "crashes": 0})
        row[line["build"]] += int(line["executions"])
        row["crashes"] += int(line["crashes"])
    print("| target | executions | of these with ASan and UBSan | crashes |\n| --- | --- | --- | --- |")
    for target, row in sorted(by_target.items()):
        print(f"| {target} | {row['fuzz'] + row['fuzz-fast']:,} | {row['fuzz']:,} | {row['crashes']} |")
    print(f"| all | {executions():,} | {sum(row['fuzz'] for row in by_target.values()):,} | "
          f"{sum(row['crashes'] for row in by_target.values())} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "coverage", "keep", "total"])
    parser.add_argument("--goal", type=int, default=100_000_000, help="executions, those of earlier runs counted")
    parser.add_argument("--slice", type=int, default=60, help="seconds a run")
    parser.add_argument("--most", type=int, default=40, help="new seeds a target that `keep` adds")
    parser.add_argument("--target", action="append", help="only these, and the goal is theirs")
    options = parser.parse_args()
    if options.what == "run":
        return run(options.goal, options.slice, options.target)
    if options.what == "keep":
        return keep(options.most)
    return {"coverage": coverage, "total": total}[options.what]()


if __name__ == "__main__":
    sys.exit(main())
