#!/usr/bin/env python3
"""An hour of load at a share of what the server can do, and what it takes of memory, descriptors and threads meanwhile.

    soak.py run --server PROGRAM --loadgen PROGRAM --out build/soak --minutes 60
    soak.py report --out build/soak --into docs/measurements

`run` starts a server, measures the highest rate at which 99 % of requests are answered within --slo, and then offers
--share of it in open loop, 1 % of the answers verified, without retries. Each minute is a run of the load generator
with connections of its own and a line in OUT/soak.csv. When `run` is stopped and started again it goes on with the
same server, at the rate that OUT/state.json has; when that server is gone, it begins anew. `report` judges: exit code
1 when the resident memory may grow by 4 MiB/h or more, when descriptors or threads grow, or when a call failed."""
import argparse
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import slope
from processes import Sampler, start_server

FIELDS = ["minute", "clock", "due", "sent", "dropped", "errors", "wrong", "verified", "p50_us", "p99_us", "max_us",
          "rss_bytes", "descriptors", "threads", "server_cpu_s", "load_average"]
# Most of a service's requests are small, a few are not.
LOAD = ["--shape", "1x16:4", "--shape", "16x1000:4", "--shape", "64x1024:2", "--shape", "4x50257:1",
        "--dtype", "float32:3,float16:1,bfloat16:1", "--op", "softmax:9,log_softmax:1", "--connections", "8"]
# The arena's pages come to be resident when they are first used, so it is small and used whole before the first minute.
SERVER = ["--backend=cpu", "--arena-bytes=128MiB", "--max-request-bytes=32MiB", "--max-response-bytes=32MiB"]
# When a machine falls behind, more requests are on their way than ever before, and the heap keeps what they took, in
# each thread's part of it: memory that is never more than the most at a time can take, and no growth. So that is
# reached before the first minute, by as many requests on their way as a minute has at most.
MOST_IN_FLIGHT = 512
FULL_SECONDS = 60
WARMUP_MINUTES = 15
MOST_GROWTH = 4 * 2**20  # bytes an hour


def load(options, address, flags):
    """A run of the load generator: its JSON."""
    done = subprocess.run([options.loadgen, "--address", address, "--json", "-", "--allow-errors", *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"soak: the load generator said: {done.stderr[-2000:]}")


def capacity(options, address):
    """Requests a second, median of three searches: others may be at work on this machine."""
    found = []
    for _ in range(3):
        document = load(options, address, [*LOAD, "--search", "--slo", options.slo, "--search-range", "100..50000",
                                           "--search-precision", "10", "--duration", "2", "--warmup", "0.3"])
        found.append(document["search"]["rate_per_s"] or 0)
        print(f"soak: {found[-1]:.0f} requests/s keep {options.slo}", flush=True)
    return sorted(found)[1]


def begin(options, folder):
    server = start_server(options.server, SERVER, folder / "server.log")
    state = {"pid": server.pid, "started": server.started, "address": server.address, "begun": time.time(),
             "commit": commit(), "slo": options.slo, "share": options.share}
    load(options, server.address, ["--shape", "1024x1024", "--connections", "8", "--in-flight", "4", "--duration", "5"])
    connections = int(LOAD[LOAD.index("--connections") + 1])
    load(options, server.address, [*LOAD, "--in-flight", str(MOST_IN_FLIGHT // connections), "--duration",
                                   str(FULL_SECONDS)])
    state["capacity"] = options.capacity or capacity(options, server.address)
    state["rate"] = round(state["capacity"] * options.share, 1)
    print(f"soak: offering {state['rate']} requests/s", flush=True)
    (folder / "soak.csv").write_text(",".join(FIELDS) + "\n")
    (folder / "state.json").write_text(json.dumps(state, indent=1))
    return state


def commit():
    return subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True,
                          check=False).stdout.strip()


def minute(options, state, number):
    sampler = Sampler(state["pid"], every_s=2)
    sampler.start()
    document = load(options, state["address"],
                    [*LOAD, "--rate", str(state["rate"]), "--duration", str(options.window), "--warmup", "0.5",
                     "--verify", "0.01", "--timeout", "30", "--max-in-flight", str(MOST_IN_FLIGHT),
                     "--seed", str(number)])
    seen = sampler.stop()
    run = document["runs"][0]
    # A percentile beyond which too few answers lie has no figure.
    at = {point["p"]: "" if point["us"] is None else round(point["us"]) for point in run["latency"]["percentiles"]}
    return {"minute": number, "clock": time.strftime("%H:%M:%S", time.gmtime()), "due": run["sent"] + run["dropped"],
            "sent": run["sent"], "dropped": run["dropped"], "errors": sum(run["errors"].values()),
            "wrong": run["wrong"], "verified": run["verified"], "p50_us": at[50], "p99_us": at[99],
            "max_us": round(run["latency"]["max_us"]),
            "rss_bytes": seen.rss, "descriptors": seen.descriptors, "threads": seen.threads,
            "server_cpu_s": round(seen.cpu_s, 1), "load_average": os.getloadavg()[0]}


def run(options):
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    state_file = folder / "state.json"
    state = json.loads(state_file.read_text()) if state_file.exists() else None
    if state is None or not Sampler.is_running(state["pid"], state["started"]):
        state = begin(options, folder)
    with (folder / "soak.csv").open(newline="") as file:
        done = sum(1 for _ in csv.DictReader(file))
    for number in range(done + 1, options.minutes + 1):
        line = minute(options, state, number)
        with (folder / "soak.csv").open("a", newline="") as file:
            csv.DictWriter(file, FIELDS, lineterminator="\n").writerow(line)
        print("soak: " + " ".join(f"{name}={line[name]}" for name in FIELDS), flush=True)
    os.kill(state["pid"], signal.SIGTERM)


def judge(rows):
    """What is wrong with these minutes, as lines; and the slope of the resident memory in bytes an hour."""
    late = [row for row in rows if row["minute"] > WARMUP_MINUTES]
    problems = []
    if len(late) < 3:
        return [f"{len(late)} minutes after the warm-up: too few"], None
    growth = slope.fit([row["minute"] / 60 for row in late], [row["rss_bytes"] for row in late])
    if growth.high >= MOST_GROWTH:
        problems.append(f"resident memory may grow by {growth.high / 2**20:.2f} MiB/h")
    for name in ("descriptors", "threads"):
        quarter = max(1, len(late) // 4)
        if max(row[name] for row in late[-quarter:]) > max(row[name] for row in late[:quarter]):
            problems.append(f"{name} grow: {[row[name] for row in late]}")
    for name in ("errors", "wrong"):
        if total := sum(row[name] for row in rows):
            problems.append(f"{total} {name}")
    return problems, growth


def read(folder, window):
    with (folder / "soak.csv").open(newline="") as file:
        return [{name: value if name == "clock" else float(value or "nan") for name, value in row.items()}
                | {"window_s": window} for row in csv.DictReader(file)]


def report(options):
    import soak_page  # only here: it draws
    folder = pathlib.Path(options.out)
    rows = read(folder, options.window)
    problems, growth = judge(rows)
    soak_page.write(pathlib.Path(options.into), folder, rows, growth, problems, WARMUP_MINUTES)
    for problem in problems:
        print(f"soak: {problem}")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--server")
    parser.add_argument("--loadgen")
    parser.add_argument("--out", default="build/soak")
    parser.add_argument("--into", default="docs/measurements")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--window", type=float, default=58, help="seconds of load in each minute")
    parser.add_argument("--share", type=float, default=0.8, help="of the capacity")
    parser.add_argument("--slo", default="p99<=100ms", help="what the capacity keeps")
    parser.add_argument("--capacity", type=float, help="requests a second, known already")
    options = parser.parse_args()
    return {"run": run, "report": report}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
