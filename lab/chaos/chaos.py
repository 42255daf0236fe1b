#!/usr/bin/env python3
"""Three servers, clients whose every answer is verified, and faults between them.

    chaos.py run --server PROGRAM --open-loop PROGRAM --out build/chaos --minutes 30 [--seed N]
    chaos.py check --server PROGRAM --open-loop PROGRAM      # a minute of it, and that it finds what is broken
    chaos.py report --out build/chaos --into docs/measurements

Each minute is a run of softmax-open-loop with a line in OUT/chaos.csv: every call that was started must have ended,
with the right answer or with a status that says what to do. At the end the first server, which is never killed, must
have given back what it took. `run` goes on after the minutes that OUT/chaos.csv has."""
import argparse
import atexit
import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import faults
from replicas import CLOCKS, OpenLoop, Proxies, Replica, free_ports
from waiting import eventually, let_pass

REPLICAS = 3
# A minute after which all kinds of faults have come often enough: what is held then is the level.
LEVEL_MINUTE = 5
MOST_GROWTH = 32 * 2**20  # bytes of resident memory above the level
FIELDS = ["minute", "clock", "seed", "started", "ended", "ok", "wrong", "unclear", "overdue", "UNAVAILABLE",
          "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "held_back", "retries", "longest_ms", "faults", "starts",
          "rss_bytes", "descriptors", "threads"]


class World:
    def __init__(self, options, folder, seed, flags=()):
        self._options, self._folder = options, folder
        ports = free_ports(3 * REPLICAS)
        logs = [folder / "replica0.log", folder / "replica1.log", pathlib.Path("/dev/full")]
        self.replicas = [
            Replica(options.server, ports[i], ports[REPLICAS + i], logs[i], clock=folder / "clock" if i == 1 else None,
                    flags=[*flags, "--log-level=debug"] if i == REPLICAS - 1 else flags) for i in range(REPLICAS)]
        for replica in self.replicas:
            replica.start()
            atexit.register(replica.kill)
        self._targets = [f"127.0.0.1:{port}" for port in ports[2 * REPLICAS:]]
        self.proxies = Proxies(list(zip(ports[2 * REPLICAS:], ports)))
        self.scene = faults.Scene(self.replicas, self.proxies, seed)
        for replica in self.replicas:
            if not replica.wait_ready(60):
                sys.exit("chaos: a server did not come to be ready")

    def load(self, seed, deadline_ms=5000, must_end_ms=None):
        return OpenLoop(self._options.open_loop, self._targets, self._options.rate, deadline_ms, seed,
                        self._options.attempts, (self._folder / "open_loop.log").open("a"), must_end_ms)

    def minute(self, number, seed, kinds=None, seconds=None, **load):
        """Load and faults for a minute (all of them undone before its end), and what became of the calls."""
        loop = self.load(seed, **load)
        schedule = faults.Schedule(self.scene, kinds)
        starts = sum(replica.starts for replica in self.replicas)
        end = time.monotonic() + (seconds or self._options.window)
        while time.monotonic() < end - 4 and loop.is_running():
            schedule.go_on()
            self._look_for_the_dead(schedule)
            let_pass(0.02)
        schedule.undo_all()
        let_pass(end - time.monotonic())
        counts = loop.stop()
        failed = counts.pop("failed", {})
        line = {name: counts.get(name, 0) for name in FIELDS if name in counts}
        line.update({name: failed.pop(name, 0) for name in FIELDS if name.isupper()})
        line.update(minute=number, clock=time.strftime("%H:%M:%S", time.gmtime()), seed=seed,
                    faults=" ".join(f"{kind}:{count}" for kind, count in sorted(schedule.count.items())),
                    starts=sum(replica.starts for replica in self.replicas) - starts)
        held = self.replicas[0].held() if self.replicas[0].is_running() else {"rss": 0, "descriptors": 0, "threads": 0}
        line.update(rss_bytes=held["rss"], descriptors=held["descriptors"], threads=held["threads"])
        return line, counts

    def _look_for_the_dead(self, schedule):
        """A server may be away only while a fault has taken it away; those undo themselves within go_on."""
        if not self.replicas[0].is_running():
            self.scene.problems.append(f"the first server ended with {self.replicas[0].process.returncode}")
            schedule.undo_all()
            self.replicas[0].start()
            self.replicas[0].wait_ready(60)

    def calm(self):
        """What the first server holds some time after its last client has gone. Unanswered requests and memory that is
        not back are problems."""
        self._wait_without(30, ('softmax_slabs{state="used"}', "softmax_requests_in_flight",
                                "softmax_requests_queued"))  # answer_timeout, keepalive and some more
        self._wait_without(60, ("softmax_connections",))  # clients that do not read go at last, too
        return self.replicas[0].held()

    def _wait_without(self, seconds, names):
        """Until the first server has none of these; after `seconds` that is a problem."""
        what = None

        def has_none():
            nonlocal what
            scrape = self.replicas[0].metrics()
            what = {name: scrape[name] for name in names if scrape[name] > 0} if scrape else "no metrics"
            return not what
        if not eventually(has_none, seconds, 0.2):
            self.scene.problems.append(f"{seconds} s after the last call the first server has {what}")

    def close(self):
        self.proxies.close()
        for i, replica in enumerate(self.replicas):
            if replica.is_running():
                code = replica.end()
                if code != 0:
                    self.scene.problems.append(f"server {i} drained with exit code {code}")
            else:
                self.scene.problems.append(f"server {i} had ended with {replica.process.returncode}")


def judge(line, counts):
    problems = []
    if not counts.get("done"):
        problems.append("the open loop broke off")
    if line.get("started", 0) == 0 or line["started"] != line["ended"]:
        problems.append(f"{line.get('started', 0)} calls were started and {line.get('ended', 0)} ended")
    for name in ("wrong", "unclear", "overdue"):
        if line.get(name, 0):
            problems.append(f"{line[name]} calls {name}: {counts.get('first_bad')}")
    if line.get("ok", 0) * 2 < line.get("started", 0):
        problems.append(f"only {line.get('ok', 0)} of {line.get('started', 0)} calls were answered")
    return [f"minute {line['minute']}: {problem}" for problem in problems]


def grown(level, held):
    problems = []
    if held["rss"] > level["rss"] + MOST_GROWTH:
        problems.append(f"resident memory is {held['rss'] >> 20} MiB and was {level['rss'] >> 20} MiB")
    for name in ("descriptors", "threads"):
        if held[name] > level[name]:
            problems.append(f"{name} are {held[name]} and were {level[name]}")
    return problems


def state_of(options, folder):
    path = folder / "state.json"
    if path.exists():
        return json.loads(path.read_text())
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    state = {"seed": options.seed or random.randrange(10**6), "commit": commit.stdout.strip(), "problems": [],
             "rate": options.rate, "level": None, "end": None}
    (folder / "chaos.csv").write_text(",".join(FIELDS) + "\n")
    path.write_text(json.dumps(state, indent=1))
    return state


def run(options):
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    state = state_of(options, folder)
    with (folder / "chaos.csv").open(newline="") as file:
        done = sum(1 for _ in csv.DictReader(file))
    print(f"chaos: seed {state['seed']}, from minute {done + 1}" + ("" if CLOCKS.exists() else ", no libfaketime"))
    world = World(options, folder, state["seed"] + done)
    begun, level = done, None
    for number in range(done + 1, options.minutes + 1):
        line, counts = world.minute(number, state["seed"] + number)
        problems = judge(line, counts) + world.scene.problems
        world.scene.problems = []
        with (folder / "chaos.csv").open("a", newline="") as file:
            csv.DictWriter(file, FIELDS, lineterminator="\n").writerow(line)
        if number - begun == LEVEL_MINUTE:
            level = world.calm()
            problems += world.scene.problems
            world.scene.problems = []
        print("chaos: " + " ".join(f"{name}={line.get(name)}" for name in FIELDS), *problems, sep="\n  ", flush=True)
        state["problems"] += problems
        (folder / "state.json").write_text(json.dumps(state, indent=1))
    held = world.calm()
    world.close()
    if level is not None:
        state["level"], state["end"] = level, held
        state["problems"] += grown(level, held)
    state["problems"] += world.scene.problems
    (folder / "state.json").write_text(json.dumps(state, indent=1))
    print(f"chaos: {len(state['problems'])} problems; level {level}, at the end {held}", *state["problems"], sep="\n")
    return 1 if state["problems"] else 0


def attempt(options, folder, name, flags=(), always=None, hold=False, **minute):
    """A short run in a world of its own: its problems."""
    world = World(options, folder, options.seed or 7, flags)
    for i in range(REPLICAS if always else 0):
        world.proxies.order(i, always)
    line, counts = world.minute(1, 1, **minute)
    problems = judge(line, counts)
    if hold:
        world.calm()
    world.close()
    problems += world.scene.problems
    print(f"check: {name}: {line.get('started')} calls, {line['faults'] or 'no faults'}; {len(problems)} problems",
          *problems[:3], sep="\n  ", flush=True)
    return problems


def found(what, problems):
    return any(what in problem for problem in problems)


def check(options):
    """0: a short run has no problems, and what is broken on purpose is found."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results = [
            not attempt(options, folder, "all kinds of faults", seconds=60, hold=True),
            # A bit of the answers is turned, behind TCP's back.
            found("calls wrong", attempt(options, folder, "wrong answers are found", always="corrupt", kinds=["storm"],
                                         seconds=10)),
            # Calls with a deadline of ten minutes that nothing reaches, and the demand that they end within 2 s.
            found("calls were started", attempt(options, folder, "calls that do not end are found",
                                                always="partition", kinds=["storm"], seconds=8, deadline_ms=600000,
                                                must_end_ms=2000)),
            # Without its limit on unread answers and dead connections a server keeps what clients do not read.
            found("softmax_slabs", attempt(options, folder, "memory that is held is found", kinds=["never_read"],
                                           seconds=12, hold=True, flags=["--answer-timeout=1h", "--keepalive-time=1h",
                                                                         "--keepalive-timeout=1h"])),
        ]
    return 0 if all(results) else 1


def report(options):
    import chaos_page
    return chaos_page.write(pathlib.Path(options.out), pathlib.Path(options.into))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "check", "report"])
    parser.add_argument("--server")
    parser.add_argument("--open-loop")
    parser.add_argument("--out", default="build/chaos")
    parser.add_argument("--into", default="docs/measurements")
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--window", type=float, default=60, help="seconds of load in each minute")
    parser.add_argument("--rate", type=float, default=150, help="calls a second")
    parser.add_argument("--attempts", type=int, default=5)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    return {"run": run, "check": check, "report": report}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
