#!/usr/bin/env python3
"""What metrics cost: softmax-server beside softmax-server-unmetered, which counts nothing, in alternating runs.

    metrics_cost.py FOLDER [--rounds 15] [--seconds 4] [--shape 1x16] [--connections 16] [--in-flight 8] [-- FLAGS...]

FOLDER holds both servers and softmax-loadgen (a build folder will do). FLAGS go to both servers. While one runs its
/metrics is scraped every second, more often than Prometheus would. Prints a line a round and the medians of the rounds'
own ratios with their 95 % intervals (order statistics): calls a second, and CPU time of the server a call, which other
programs on the machine disturb less.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

METERED, UNMETERED, LOADGEN = "softmax-server", "softmax-server-unmetered", "softmax-loadgen"


def find(folder, name):
    for where, _, names in os.walk(folder):
        if name in names and os.access(os.path.join(where, name), os.X_OK):
            return os.path.join(where, name)
    sys.exit(f"metrics_cost.py: there is no {name} in {folder}")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(log, pattern, process):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with open(log, encoding="utf-8") as text:
            found = re.search(pattern, text.read())
        if found:
            return found.group(1)
        time.sleep(0.05)
    sys.exit(f"metrics_cost.py: the server did not start; see {log}")


def scrape(address, stop):
    while not stop.wait(1):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            answer.read()


def measure(programs, name, arguments, folder):
    """(calls a second, CPU seconds of the server a call) of one run."""
    log = os.path.join(folder, "server.log")
    with open(log, "w", encoding="utf-8") as output:
        server = subprocess.Popen([programs[name], "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"]
                                  + arguments.flags, stdout=output, stderr=output)
    stop = threading.Event()
    try:
        address = wait_for(log, r"listening on (\S+)", server)
        scraper = threading.Thread(target=scrape, args=(wait_for(log, r"metrics on (\S+)", server), stop))
        scraper.start()
        report = os.path.join(folder, "load.json")
        before = cpu_seconds(server.pid)
        subprocess.run([programs[LOADGEN], "--address", address, "--shape", arguments.shape, "--no-verify", "--json",
                        report, "--connections", str(arguments.connections), "--in-flight", str(arguments.in_flight),
                        "--warmup", "0", "--duration", str(arguments.seconds)], check=True, capture_output=True,
                       timeout=arguments.seconds + 120)
        cpu = cpu_seconds(server.pid) - before
        stop.set()
        scraper.join()
        with open(report, encoding="utf-8") as opened:
            run = json.load(opened)["runs"][0]
        requests = run["latency"]["count"]
        return requests / arguments.seconds, cpu / requests
    finally:
        stop.set()
        server.terminate()
        server.wait(60)


def interval(values):
    """Median and 95 % interval by order statistics."""
    values = sorted(values)
    low = max(0, math.floor(len(values) / 2 - 0.98 * math.sqrt(len(values))))
    return statistics.median(values), values[low], values[-1 - low]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--shape", default="1x16")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--in-flight", type=int, default=8)
    command = sys.argv[1:]
    split = command.index("--") if "--" in command else len(command)
    arguments = parser.parse_args(command[:split])
    arguments.flags = command[split + 1:]
    programs = {name: find(arguments.folder, name) for name in (METERED, UNMETERED, LOADGEN)}
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(arguments.rounds):
            order = [METERED, UNMETERED] if round_number % 2 == 0 else [UNMETERED, METERED]
            results = {name: measure(programs, name, arguments, folder) for name in order}
            (rate, cpu), (bare_rate, bare_cpu) = results[METERED], results[UNMETERED]
            ratios.append((rate / bare_rate, cpu / bare_cpu))
            print(f"{rate:9.0f} calls/s {cpu * 1e6:6.2f} us   without: {bare_rate:9.0f} calls/s "
                  f"{bare_cpu * 1e6:6.2f} us", flush=True)
    for what, values in zip(("calls/s", "server CPU a call"), zip(*ratios)):
        median, low, high = interval(values)
        print(f"{what}, with metrics / without: median {median:.4f}, 95 % interval {low:.4f} to {high:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
