"""service_bench: the service beside a bare echo of the same bytes, in one run, under one load generator.

    python3 lab/bench/service_bench --programs build/dev --out out/bench

Every cell is measured in rounds; in a round each server has one window, in an order that turns, and ratios are those of
windows of one round. What was measured is kept in OUT/rounds.jsonl: a run that was stopped goes on with --resume. The
results are OUT/service.csv, service.json and service.md. lab/README.md says what the figures mean.

Exit code 0: measured; 1: something failed (its lines say FAILED); 2: wrong usage; 3: a program is missing; 4: stopped
by --stop-after or a signal, go on with --resume."""
import argparse
import itertools
import os
import shlex
import signal
import subprocess
import sys
import time

import bars as bars_module
import checks as checks_module
import devices
import fleets
import inprocess
import machine
import plan
import programs
import results
import scenarios
import unread
from journal import Journal

SECTIONS = {
    "saturation": (plan.saturation_cells, "unary over TCP, many requests in flight"),
    "latency": (plan.latency_cells, "unary over TCP, one request at a time"),
    "unix": (plan.unix_cells, "both over a unix socket"),
    "stream": (plan.stream_cells, "streams, one and 16 requests a message"),
    "answers": (plan.answers_cells, "the 20 best of rows of logits, beside a sink"),
    "baselines": (plan.baseline_cells, "a plain synchronous server, and Python with torch"),
    "generator": (plan.generator_cells, "whether more connections or processes raise anything"),
    "threads": (fleets.thread_cells, "echo and service with few queues and with many"),
    "crowd": (fleets.crowd_cells, "beside thousands of idle connections"),
    "mixed": (scenarios.mixed_cells, "rows of many widths against one width"),
    "batches": (scenarios.batches_cells, "batch size and launches against load"),
    "regions": (scenarios.regions_cells, "tensors in shared memory against messages"),
    "overload": (scenarios.overload_cells, "an open loop at twice the capacity"),
    "fairness": (scenarios.fairness_cells, "one greedy client beside ten others"),
    "unread": (unread.cells, "clients that never read their answers"),
    "idle": (scenarios.idle_cells, "what an idle server uses"),
    "devices": (devices.cells, "one device and several, by messages and by regions"),
    "inprocess": (inprocess.cells, "batching and execution without gRPC"),
}
EXIT_FAILED = 1
EXIT_MISSING = 3
EXIT_STOPPED = 4


def parse_arguments(arguments):
    listed = "\n".join(f"  {name:11} {what}" for name, (_, what) in SECTIONS.items())
    parser = argparse.ArgumentParser(prog="service_bench", description=__doc__, epilog="sections:\n" + listed,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/dev", metavar="DIR", help="where the programs are (build/dev)")
    parser.add_argument("--out", default="out/bench", metavar="DIR", help="results and logs (out/bench)")
    parser.add_argument("--backend", default="auto", help="of the service: cuda, cpu, cuda,cpu, or auto (auto)")
    parser.add_argument("--only", default=",".join(SECTIONS), metavar="SECTIONS", help="with commas; all if unset")
    parser.add_argument("--without", default="", metavar="SERVERS",
                        help="of echo, echo_c, echo_copy and null, with commas: not measured, to leave more time")
    parser.add_argument("--rounds", type=int, default=checks_module.ROUNDS, help="of every cell (7)")
    parser.add_argument("--seconds", type=float, default=checks_module.SECONDS, help="of a window (5)")
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds of load before a window (0.5)")
    parser.add_argument("--payloads", default=",".join(str(p) for p in plan.PAYLOADS), help="bytes, with commas")
    parser.add_argument("--processes", type=int, default=plan.default_processes(len(os.sched_getaffinity(0))),
                        help="of the generator at saturation (1 below 8 cores, 4 up to 16, then one for 4 cores)")
    parser.add_argument("--queues", type=int, help="of echo and service; their own default if unset")
    parser.add_argument("--server-flags", default="", metavar="FLAGS", help="more flags of softmax-server, one text")
    parser.add_argument("--inprocess-flags", default="", metavar="FLAGS",
                        help="more flags of softmax-inprocess-bench, such as \"--threads 12\"")
    parser.add_argument("--unread-clients", type=int, default=64, help="clients that never read (64)")
    parser.add_argument("--numpy", action="store_true", help="the torch server computes with numpy (a test's choice)")
    parser.add_argument("--resume", action="store_true", help="go on with what --out has")
    parser.add_argument("--stop-after", type=float, metavar="SECONDS", help="begin no round that would end later")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the results of --out again")
    options = parser.parse_args(arguments)
    options.only = _words(parser, "--only", options.only, SECTIONS)
    options.without = (_words(parser, "--without", options.without, ("echo", "echo_c", "echo_copy", "null"))
                       if options.without else [])
    options.backend = ([machine.backend()] if options.backend == "auto"
                       else _words(parser, "--backend", options.backend, ("cuda", "cpu")))
    try:
        options.payloads = sorted({int(text) for text in options.payloads.split(",")})
    except ValueError:
        parser.error(f"--payloads {options.payloads}: whole numbers of bytes, with commas")
    if any(p <= 0 or p % 4 != 0 for p in options.payloads):
        parser.error(f"--payloads {options.payloads}: multiples of 4 bytes (float32), above 0")
    for name, least in (("rounds", 1), ("seconds", 0.05), ("warmup", 0.0), ("processes", 1), ("unread_clients", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name):g}: at least {least:g}")
    return options


def _words(parser, flag, text, known):
    words = text.split(",")
    for word in words:
        if word not in known:
            parser.error(f"{flag} {word}: expected " + ", ".join(known))
    return words


def measure_round(cell, number):
    """Even rounds in the cell's order, odd ones backwards."""
    names = list(cell.contenders)
    windows = {}
    for name in names if number % 2 == 0 else reversed(names):
        contender = cell.contenders[name]
        windows[name] = {"row": contender.row, "figures": contender.measure()}
    return windows


told_to_stop = False


def stop(*_):
    """For signals: what runs is left at once, so that servers are ended. Python swallows an exception that a signal
    raises inside a finaliser; then the flag ends the run after the present cell."""
    global told_to_stop
    told_to_stop = True
    raise KeyboardInterrupt


def measure(bench, journal, options):
    """The exit code. A signal ends it as --stop-after does, so that the servers are ended and the results written."""
    try:
        code = measure_sections(bench, journal, options)
    except KeyboardInterrupt:
        code = EXIT_STOPPED
    if code == EXIT_STOPPED:
        print("stopped before the end: go on with the same flags and --resume")
    return code


def measure_sections(bench, journal, options):
    """A cell that fails is noted and left, and the others are measured."""
    began = time.monotonic()
    code, longest = 0, {}
    for section in options.only:
        cells = SECTIONS[section][0](bench)
        failed = set()
        for number, cell in itertools.product(range(options.rounds), cells):
            if cell.name in failed or journal.has(section, cell.name, number):
                continue
            started = time.monotonic()
            late = options.stop_after and started - began + longest.get(section, 0) > options.stop_after
            if late or told_to_stop:
                return EXIT_STOPPED
            where = f"{section}: {cell.name}: round {number + 1} of {options.rounds}: "
            try:
                windows = measure_round(cell, number)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                bench.notes.append(f"FAILED {where}{error}")
                print(bench.notes[-1], flush=True)
                failed.add(cell.name)
                code = EXIT_FAILED
                continue
            journal.add(section, cell.name, number, windows)
            longest[section] = max(longest.get(section, 0), time.monotonic() - started)
            print(where + _brief(windows), flush=True)
        bench.fleet.stop(f"{bench.service}_unread")
    return code


def _brief(windows):
    def figure(figures):
        for name, text in (("calls_per_s", "{:,.0f}/s"), ("cpu_cores", "{:.4f} cores"), ("GBps", "{:.1f} GB/s")):
            if name in figures:
                return text.format(figures[name])
        return "?"
    return ", ".join(f"{name} {figure(window['figures'])}" for name, window in windows.items())


def queues_of(fleet, backends):
    """What the servers themselves say."""
    return {backend: machine.queues(fleet.server(backend)) for backend in ["echo"] + backends}


def write_results(folder, journal, settings, notes):
    checks = checks_module.all_checks(journal, settings)
    bars = bars_module.all_bars(journal, settings)
    table = results.rows(journal)
    results.write_csv(os.path.join(folder, "service.csv"), table)
    results.write_json(os.path.join(folder, "service.json"), results.document(journal, settings, checks, bars))
    text = results.text(table, checks, bars, notes)
    with open(os.path.join(folder, "service.md"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    print(text)


def run(options, command):
    os.makedirs(os.path.join(options.out, "logs"), exist_ok=True)
    journal = Journal(options.out, options.resume or options.report)
    kept = os.path.join(options.out, "settings.json")
    if options.report:
        settings = machine.load(kept)
        write_results(options.out, journal, settings, settings["notes"])
        return 0
    settings = machine.settings(options, command)
    if options.resume and os.path.exists(kept):
        machine.check_same(machine.load(kept), settings)
    with programs.Fleet(options.programs, os.path.join(options.out, "logs"), options.backend[0],
                        shlex.split(options.server_flags), options.queues, options.numpy) as fleet:
        bench = plan.Bench(fleet, programs.find(options.programs, "softmax-loadgen"), options.backend,
                           (options.warmup, options.seconds), options.payloads, options.processes, settings["cores"],
                           settings["gpus"], [], options.unread_clients, options.without,
                           shlex.split(options.inprocess_flags))
        settings["queues"] = queues_of(fleet, options.backend)
        results.write_json(kept, settings)  # before anything is measured: a run that is killed can be reported
        code = measure(bench, journal, options)
    if fleet.failures:
        bench.notes += fleet.failures
        code = EXIT_FAILED
    settings["notes"] = bench.notes
    results.write_json(kept, settings)
    write_results(options.out, journal, settings, bench.notes)
    return code


def main(arguments):
    options = parse_arguments(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        return run(options, "service_bench " + shlex.join(arguments))
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except (FileExistsError, FileNotFoundError, machine.Different) as error:
        print(f"service_bench: {error}", file=sys.stderr)
        return 2
    except programs.Missing as missing:
        print(f"service_bench: {missing}", file=sys.stderr)
        return EXIT_MISSING


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
