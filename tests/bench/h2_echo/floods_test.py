#!/usr/bin/env python3
"""Floods from one connection each (--connections for more) beside a good client, which calls one at a time: when the
server ended the flood, the client's p99 alone and beside it, resident memory before, most and after (--rest), and how
long SIGTERM takes while another flood begins.

    floods_test.py --server SERVER --driver softmax-h2-driver --flood softmax-flood [-- SERVER'S FLAGS]

Exit code 1: a flood was not ended (--may-go-on), a call of the good client failed, the server grew by more than 64 MiB
a connection, or SIGTERM did not end it within 3 s, one of which is for the calls under way."""
import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from waiting import let_pass  # noqa: E402

GROWTH_MIB = 64
END_SECONDS = 3


def resident_mib(pid, field="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(field + r":\s+(\d+) kB", file.read()).group(1)) / 1024


def start(command):
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in server.stdout:
        found = re.search(r"listening on (127\.0\.0\.1:\d+)", line)
        if found:
            return server, found.group(1)
    raise RuntimeError(f"{command}: did not start")


def good_calls(options, address, seconds):
    """(p99 in us or None, what failed)"""
    done = subprocess.run([options.driver, "--address", address, "--warmup", "0.1", "--duration", str(seconds)],
                          capture_output=True, text=True, timeout=60, check=False)
    said = json.loads(done.stdout) if done.stdout else {}
    p99 = said.get("p99_us") or None
    return p99, "" if done.returncode == 0 else f"good client: {done.stdout or done.stderr}".strip()


def flood_beside(options, attack, flags):
    """A row of the table, and what was not as it should be."""
    server, address = start([options.server, "--address", "127.0.0.1:0", *flags])
    floods = []

    def begin(seconds):
        for _ in range(options.connections):
            floods.append(subprocess.Popen([options.flood, "--address", address, "--attack", attack, "--duration",
                                            str(seconds)], stdout=subprocess.PIPE, text=True))

    try:
        alone, problem = good_calls(options, address, 0.5)
        problems = [problem]
        before = resident_mib(server.pid)
        begin(options.seconds)
        beside, problem = good_calls(options, address, options.seconds - 0.5)
        problems.append(problem)
        ended = [flood.communicate(timeout=60)[0].strip() for flood in floods]
        most = resident_mib(server.pid, "VmHWM")
        let_pass(options.rest)
        after = resident_mib(server.pid)
        floods.clear()
        begin(END_SECONDS + 2)
        let_pass(0.3)  # of the flood, which says nothing while it goes on
        began = time.monotonic()
        server.terminate()
        try:
            server.wait(END_SECONDS + 10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        ending = time.monotonic() - began
    finally:
        for flood in floods:
            flood.kill()
            flood.communicate()
        if server.poll() is None:
            server.kill()
            server.wait()
        server.stdout.close()
    if not options.may_go_on and "not ended" in ended:
        problems.append("the flood goes on")
    if most - before > GROWTH_MIB * options.connections:
        problems.append(f"grew by {most - before:.0f} MiB")
    if ending > END_SECONDS:
        problems.append(f"SIGTERM took {ending:.1f} s")
    return [attack, ended[0], alone, beside, before, most, after, ending], [text for text in problems if text]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("server", "driver", "flood"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="of a flood that is not ended")
    parser.add_argument("--rest", type=float, default=0.2, help="seconds until memory after the flood is looked at")
    parser.add_argument("--may-go-on", action="store_true", help="floods that the server does not end are no failure")
    parser.add_argument("--only", default="", help="floods whose names have this")
    parser.add_argument("flags", nargs="*", help="of the server")
    options = parser.parse_args()
    attacks = subprocess.run([options.flood], capture_output=True, text=True, check=True).stdout.splitlines()
    failed = 0
    print("flood | ended after, s | p99 alone, us | beside | MiB before | most | after | SIGTERM, s")
    for attack in attacks:
        if options.only not in attack:
            continue
        row, problems = flood_beside(options, attack, options.flags)
        print(" | ".join(f"{value:.1f}" if isinstance(value, float) else str(value) for value in row),
              *[f"FAILED: {text}" for text in problems], sep="  ", flush=True)
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
