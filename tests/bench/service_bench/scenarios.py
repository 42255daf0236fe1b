"""Sections beside the table: the service alone, in situations that the table does not have."""
import dataclasses
import functools
import os
import signal
import subprocess
import time

import loads
import plan
import programs
from plan import Cell, Contender

OVERLOAD_PAYLOAD = 4 << 10
FAIR_PAYLOAD = 4 << 10
BATCH_PAYLOAD = 4 << 10
# In an open loop a request costs the generator more than the server: with one queue for so many cores the server can
# be offered twice what it can do.
CORES_OF_AN_OVERLOADED_QUEUE = 16


def _measure(bench, load, extra=(), verify=plan.VERIFY, window=None):
    return loads.run(bench.loadgen, bench.fleet.server(bench.service), "tcp", load, window or bench.window, verify,
                     extra)


def mixed_cells(bench):
    """Ragged batches against uniform ones of the same mean bytes."""
    load = plan.saturation(4 << 10, bench.processes)

    def form(*what):
        return Contender(lambda: _measure(bench, dataclasses.replace(load, what=what)))

    drawn = ("--rows", "1", "--cols", "loguniform:16:8192")

    @functools.lru_cache(maxsize=None)
    def drawn_mean():
        # The generator draws up to 1024 widths; the same seed always draws the same ones.
        seen = _measure(bench, dataclasses.replace(load, what=drawn), window=(0.1, 0.5))
        return round(seen["GBps"] * 1e9 / seen["calls_per_s"] / 4)

    uniform = Contender(lambda: _measure(bench, dataclasses.replace(load, what=("--shape", f"1x{drawn_mean()}"))))
    return [Cell("mixed", "1000 and 1024", {"mixed": form("--shape", "1x1000", "--shape", "1x1024"),
                                            "uniform": form("--shape", "1x1012")}),
            Cell("mixed", "log-uniform 16 to 8192", {"mixed": form(*drawn), "uniform": uniform})]


def batches_cells(bench):
    """Batch size, launches and device time per row as the load grows."""
    what = loads.of_payload(BATCH_PAYLOAD)
    return [Cell("batches", f"{16 * in_flight} in flight",
                 {"service": Contender(functools.partial(
                     _measure, bench, loads.Load(16, in_flight, bench.processes, what=what)))})
            for in_flight in (1, 2, 4, 8, 16, 32)]


def overload_cells(bench):
    """Capacity in a closed loop, then an open loop below it and at twice as much, of a server with few queues."""
    base = dataclasses.replace(plan.saturation(OVERLOAD_PAYLOAD, max(1, bench.cores // 2)),
                               what=loads.of_payload(OVERLOAD_PAYLOAD))
    found = {}

    def measure(load, extra=()):
        server = bench.fleet.server(bench.service, name=f"{bench.service}_overloaded",
                                    queues=max(1, bench.cores // CORES_OF_AN_OVERLOADED_QUEUE))
        return loads.run(bench.loadgen, server, "tcp", load, bench.window, plan.VERIFY, extra)

    def capacity():
        seen = measure(base)
        found["rate"] = seen["calls_per_s"]
        return seen

    def at(part):
        def run():
            # An odd round comes here first.
            rate = (found.get("rate") or capacity()["calls_per_s"]) * part
            load = dataclasses.replace(base, in_flight=None, threads=1)
            return {**measure(load, ("--rate", f"{rate:.0f}", "--arrivals", "poisson", "--allow-errors")),
                    "offered_per_s": rate}
        return run

    return [Cell("overload", "4 KiB", {"capacity": Contender(capacity), "0.8": Contender(at(0.8)),
                                       "2.0": Contender(at(2.0))})]


def fairness_cells(bench):
    """Ten clients with one request in flight each, alone and beside one with 1024."""
    what = loads.of_payload(FAIR_PAYLOAD)
    ten = loads.Load(10, 1, 1, 1, what=what)
    # A connection carries at most 256 calls at a time (max-concurrent-streams): 1024 need four.
    greedy = loads.Load(4, 256, 1, 2, what=what)

    def beside():
        server = bench.fleet.server(bench.service)
        seconds = sum(bench.window) + 30  # ended below
        command = loads.command(bench.loadgen, server.tcp, greedy, (0.1, seconds), None)
        other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 preexec_fn=programs.end_with_parent)
        try:
            time.sleep(0.5)
            seen = _measure(bench, ten)
            if other.poll() is not None:
                raise RuntimeError(f"the greedy client ended by itself: {' '.join(command)}")
            return seen
        finally:
            other.send_signal(signal.SIGINT)
            try:
                other.wait(30)
            except subprocess.TimeoutExpired:
                other.kill()
                other.wait()

    return [Cell("fairness", "4 KiB", {"alone": Contender(lambda: _measure(bench, ten)),
                                       "beside": Contender(beside)})]


def idle_cells(bench):
    """CPU and wake-ups of a server that nobody calls, after it was called."""
    def watch(backend):
        server = bench.fleet.server(backend)
        load = loads.Load(4, 2, what=loads.of_payload(4 << 10))
        loads.run(bench.loadgen, server, "tcp", load, (0.1, 0.2), None)
        time.sleep(1)
        before, began = _usage(server.pid), time.monotonic()
        time.sleep(max(2.0, bench.window[1]))
        after, seconds = _usage(server.pid), time.monotonic() - began
        return {"cpu_cores": (after[0] - before[0]) / seconds, "wakeups_per_s": (after[1] - before[1]) / seconds}

    return [Cell("idle", backend, {backend: Contender(functools.partial(watch, backend))})
            for backend in ["echo", "null"] + bench.backends]


def _usage(pid):
    """(seconds of CPU, times a thread of the process went to sleep) so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    sleeps = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
            sleeps += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return seconds, sleeps
