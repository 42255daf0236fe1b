#!/usr/bin/env python3
"""What gRPC's server costs: echoes by gRPC's C++ interface (echo), by its C interface (echo_c) and by nghttp2 (h2),
the last with a copy of each message as well as the first (echo_copy, h2_copy), one after the other in each round, under
two generators: `driver`, on nghttp2 (softmax-h2-driver), and `grpc`, softmax-loadgen.

    python3 tests/bench/h2_echo/transport_bench.py --programs build/dev --out out/transport

OUT/rounds.jsonl has every window, and a run goes on with those that it finds there; OUT/transport.csv the medians, and
the ratios to echo and echo_c of the same round with their interval. Exit code 1: calls failed, or were answered
wrong."""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "service_bench"))
import loads  # noqa: E402
import plan  # noqa: E402
import programs  # noqa: E402
import ratios  # noqa: E402

PAYLOADS = [64, 4 << 10, 64 << 10, 256 << 10, 1 << 20]
GRPC_LATENCY_PAYLOADS = (64, 64 << 10)
GRPC_STREAM_PAYLOADS = (64, 64 << 10)
FIGURES = ("calls_per_s", "GBps", "p50_us", "p99_us", "server_user_us", "server_system_us", "generator_cores")
COLUMNS = ("server", "generator", "method", "payload_bytes", "connections", "in_flight") + FIGURES + (
    "rounds", "ratio_to_echo", "ratio_low", "ratio_high", "ratio_to_echo_c", "ratio_c_low", "ratio_c_high")


def cells(payloads):
    """(generator, method, payload, connections, in flight, servers)"""
    for payload in payloads:
        load = plan.saturation(payload, 1)
        saturation, one = (load.connections, load.in_flight), (1, 1)
        unary, streams = ["echo", "echo_c", "h2"], ["echo", "h2"]
        copies = ["echo_copy", "h2_copy"] if payload >= plan.COPY_FROM else []
        yield ("driver", "unary", payload, *saturation, unary + copies)
        yield ("driver", "unary", payload, *one, unary)
        yield ("driver", "stream", payload, *saturation, streams)
        yield ("driver", "stream", payload, *one, streams)
        yield ("grpc", "unary", payload, *saturation, unary)
        if payload in GRPC_LATENCY_PAYLOADS:
            yield ("grpc", "unary", payload, *one, unary)
        if payload in GRPC_STREAM_PAYLOADS:
            yield ("grpc", "stream", payload, *saturation, streams)


def by_driver(options, server, method, payload, connections, in_flight):
    command = [programs.find(options.programs, "softmax-h2-driver"), "--address", server.tcp, "--connections",
               connections, "--in-flight", in_flight, "--threads", min(connections, options.threads),
               "--payload-bytes", payload, "--warmup", options.warmup, "--duration", options.seconds, "--server-pid",
               server.pid] + (["--stream"] if method == "stream" else [])
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    said = json.loads(done.stdout)
    return {**said, "generator_cores": said["driver_cores"]}


def by_grpc(options, server, method, payload, connections, in_flight):
    load = loads.Load(connections, in_flight, min(connections, options.processes), 1 if connections == 1 else 2, method,
                      loads.of_payload(payload))
    before = ticks_of(server.pid)
    said = loads.run(programs.find(options.programs, "softmax-loadgen"), server, "tcp", load,
                     (options.warmup, options.seconds), None)
    user, system = (after - was for after, was in zip(ticks_of(server.pid), before))
    # The split is of the whole run, warm-up included; the sum is the window's.
    each = said["server_cpu_us_per_call"] or 0
    return {**said, "server_user_us": each * user / max(user + system, 1),
            "server_system_us": each * system / max(user + system, 1)}


def ticks_of(pid):
    """Ticks of the processor: (user, system)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


GENERATORS = {"driver": by_driver, "grpc": by_grpc}


def measure(options, fleet, journal):
    began, code = time.monotonic(), 0
    first = 1 + max((window["round"] for window in journal), default=-1)
    for number in range(first, first + options.rounds):
        started = time.monotonic()
        for generator, method, payload, connections, in_flight, servers in cells(options.payloads):
            if generator not in options.generators:
                continue
            for name in servers if number % 2 == 0 else reversed(servers):
                try:
                    figures = GENERATORS[generator](options, fleet.server(name), method, payload, connections,
                                                    in_flight)
                except RuntimeError as error:
                    print(f"FAILED {error}", flush=True)
                    code = 1
                    continue
                journal.append({"round": number, "server": name, "generator": generator, "method": method,
                                "payload_bytes": payload, "connections": connections, "in_flight": in_flight,
                                **{figure: figures[figure] for figure in FIGURES}})
        print(f"round {number + 1}: {time.monotonic() - started:.0f} s", flush=True)
        if time.monotonic() - began + (time.monotonic() - started) > options.stop_after:
            break
    return code


def rows(journal):
    key = COLUMNS[:6]
    by_cell = {}
    for window in journal:
        by_cell.setdefault(tuple(window[name] for name in key), {})[window["round"]] = window
    for cell, windows in by_cell.items():
        row = dict(zip(key, cell))
        for figure in FIGURES:
            known = [w[figure] for w in windows.values() if w[figure] is not None]
            row[figure] = f"{statistics.median(known):.6g}" if known else ""
        row["rounds"] = len(windows)
        for other, names in (("echo", COLUMNS[-6:-3]), ("echo_c", COLUMNS[-3:])):
            others = by_cell.get((other,) + cell[1:], {})
            found = ratios.ratio([(w["calls_per_s"], others[n]["calls_per_s"]) for n, w in windows.items()
                                  if n in others])
            texts = ["", "", ""] if found is None else [f"{x:.4g}" for x in (found.median, found.low, found.high)]
            row.update(zip(names, texts))
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/dev", metavar="DIR")
    parser.add_argument("--out", default="out/transport", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warmup", type=float, default=0.2)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a window")
    parser.add_argument("--payloads", default=",".join(map(str, PAYLOADS)))
    parser.add_argument("--generators", default="driver,grpc")
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="of the driver")
    parser.add_argument("--processes", type=int, default=4 if (os.cpu_count() or 1) >= 8 else 1,
                        help="of softmax-loadgen")
    parser.add_argument("--queues", type=int, help="threads of each server")
    parser.add_argument("--stop-after", type=float, default=1e9, metavar="SECONDS",
                        help="begin no round that ends later")
    options = parser.parse_args()
    options.payloads = [int(text) for text in options.payloads.split(",")]
    options.generators = options.generators.split(",")
    os.makedirs(options.out, exist_ok=True)
    kept, journal = os.path.join(options.out, "rounds.jsonl"), []
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            journal = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as logs, programs.Fleet(options.programs, logs, "cpu",
                                                               queues=options.queues) as fleet:
        code = measure(options, fleet, journal)
    with open(kept, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(window) + "\n" for window in journal)
    with open(os.path.join(options.out, "transport.csv"), "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows(journal))
    return code


if __name__ == "__main__":
    sys.exit(main())
