#!/usr/bin/env python3
"""service_table.py DIR BACKEND: sums up the cells that measure_service.sh left in DIR.

Prints a Markdown table (medians over the rounds; the ratio is the median of the rounds' own ratios, service to echo)
and writes DIR/service.csv with one row a server, payload and load."""
import csv
import glob
import json
import os
import re
import statistics
import sys


def percentile(run, wanted):
    return next(at["us"] for at in run["latency"]["percentiles"] if at["p"] == wanted)


FIGURES = (lambda run: run["achieved_per_s"], lambda run: run["gb_per_s"], lambda run: percentile(run, 50),
           lambda run: percentile(run, 99), lambda run: percentile(run, 99.9))


def load(folder):
    """{(server, bytes, connections): [the run of each round]}"""
    cells = {}
    for path in sorted(glob.glob(os.path.join(folder, "cell_*.json"))):
        found = re.match(r"cell_(\d+)_(\w+)_(\d+)_(\d+)\.json", os.path.basename(path))
        server, size, connections = found.group(2), int(found.group(3)), int(found.group(4))
        with open(path, encoding="utf-8") as file:
            cells.setdefault((server, size, connections), []).append(json.load(file)["runs"][0])
    return cells


def median(runs, figure):
    return statistics.median(figure(run) for run in runs)


def name(size):
    for unit, text in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {text}"
    return f"{size} B"


def cpu_us(runs):
    return statistics.median(run["server_cores"] * 1e6 / max(run["achieved_per_s"], 1e-9) for run in runs)


def main():
    folder, backend = sys.argv[1], sys.argv[2]
    cells = load(folder)
    columns = ["server", "payload_bytes", "connections", "in_flight", "calls_per_s", "GBps", "p50_us", "p99_us",
               "p999_us", "server_cpu_us_per_call", "ratio_to_echo"]
    print("| payload | load | echo calls/s | GB/s | p50 us | p99 us "
          "| service calls/s | GB/s | p50 us | p99 us | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with open(os.path.join(folder, "service.csv"), "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(columns)
        for (server, size, connections) in sorted(key for key in cells if key[0] == "echo"):
            echo, service = cells[server, size, connections], cells.get((backend, size, connections), [])
            ratios = [s["achieved_per_s"] / e["achieved_per_s"] for e, s in zip(echo, service)]
            ratio = statistics.median(ratios) if ratios else float("nan")
            in_flight = echo[0]["in_flight"]
            row = []
            for label, runs in (("echo", echo), (backend, service)):
                if not runs:
                    continue
                figures = [median(runs, figure) for figure in FIGURES]
                out.writerow([label, size, connections, in_flight, *(f"{v:.6g}" for v in figures),
                              f"{cpu_us(runs):.4g}", "1" if label == "echo" else f"{ratio:.3f}"])
                row += [f"{figures[0]:,.0f}", f"{figures[1]:.2f}", f"{figures[2]:.0f}", f"{figures[3]:.0f}"]
            print(f"| {name(size)} | {connections} x {in_flight} | " + " | ".join(row) + f" | {ratio:.2f} |")


if __name__ == "__main__":
    main()
