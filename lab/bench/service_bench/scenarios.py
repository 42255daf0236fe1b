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
from waiting import eventually, let_pass

OVERLOAD_PAYLOAD = 4 << 10
FAIR_PAYLOAD = 4 << 10
BATCH_PAYLOAD = 4 << 10
# One queue for all these cores, and slow batches that hold little: twice what the server can do is then little for the
# generator, whom a request in an open loop costs more than the server.
CORES_OF_AN_OVERLOADED_QUEUE = 16
OVERLOADED = ("--unsafe-testing", "--fault", "late:20ms", "--max-batch-requests", "64")
# Times the p99 at 0.8 of the capacity.
OVERLOAD_PATIENCE = 3


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


REGION_PAYLOADS = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)


def regions_cells(bench):
    """Tensors in memory that the server shares, and copied into it and out, against the same in messages."""
    def form(load, *extra):
        def measure():
            server = bench.fleet.server(bench.service, name="regions",
                                        extra=("--regions-socket", bench.fleet.socket("regions.sock"),
                                               "--regions-connection-bytes", "1GiB"))
            return loads.run(bench.loadgen, server, "tcp", load, bench.window, plan.VERIFY, extra)
        return Contender(measure)

    def contenders(load):
        return {"messages": form(load), **{way: form(load, "--regions", way) for way in ("host", "auto")}}

    cells = []
    for payload in [p for p in REGION_PAYLOADS if p in bench.payloads]:
        what = loads.of_payload(payload)
        many = dataclasses.replace(plan.saturation(payload, bench.processes), what=what)
        cells += [Cell("regions", f"{payload} saturation", contenders(many)),
                  Cell("regions", f"{payload} one", contenders(dataclasses.replace(plan.ONE_BY_ONE, what=what)))]
    return cells


class _Overload:
    """Capacity in a closed loop, then an open loop below it and at twice as much, of a server with few queues and a
    device that is made slow: on one machine no client can bring a GPU more than it does.

    At twice the capacity a client gives up after what the bar allows the slowest answers to take."""

    def __init__(self, bench):
        self._bench = bench
        load = plan.saturation(OVERLOAD_PAYLOAD, max(1, bench.cores // 2))
        self._closed = dataclasses.replace(load, in_flight=2 * load.in_flight, what=loads.of_payload(OVERLOAD_PAYLOAD))
        self._open = dataclasses.replace(self._closed, in_flight=None, threads=1)
        self._rate = self._p99_us = None

    def capacity(self):
        seen = self._measure(self._closed)
        self._rate = seen["calls_per_s"]
        return seen

    def below(self):
        seen = self._offer(self._open, 0.8)
        self._p99_us = seen["p99_us"]
        return seen

    def above(self):
        # An odd round comes here first. Nothing may have been answered in a short window.
        p99_us = self._p99_us or self.below()["p99_us"] or 1e6
        return self._offer(dataclasses.replace(self._open, timeout=round(OVERLOAD_PATIENCE * p99_us / 1e6, 4)), 2)

    def _offer(self, load, part):
        rate = (self._rate or self.capacity()["calls_per_s"]) * part
        flags = ("--rate", f"{rate:.0f}", "--arrivals", "poisson", "--allow-errors")
        return {**self._measure(load, flags), "offered_per_s": rate, "timeout_s": load.timeout}

    def _measure(self, load, extra=()):
        server = self._bench.fleet.server(self._bench.service, OVERLOADED, name=f"{self._bench.service}_overloaded",
                                          queues=max(1, self._bench.cores // CORES_OF_AN_OVERLOADED_QUEUE))
        return loads.run(self._bench.loadgen, server, "tcp", load, self._bench.window, plan.VERIFY, extra)


def overload_cells(bench):
    overload = _Overload(bench)
    return [Cell("overload", "4 KiB", {"capacity": Contender(overload.capacity), "0.8": Contender(overload.below),
                                       "2.0": Contender(overload.above)})]


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
            eventually(lambda: server.gauge("softmax_requests_in_flight") > 20 or other.poll() is not None)
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
        let_pass(1)
        before, began = _usage(server.pid), time.monotonic()
        let_pass(max(2.0, bench.window[1]))
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
