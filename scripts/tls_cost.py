#!/usr/bin/env python3
"""What TLS costs: one softmax-server in the clear and one with TLS, measured in turn by one load generator; then the
certificates are changed under load, and every call that fails counts.

    tls_cost.py FOLDER [--rounds 7] [--seconds 2] [--swap-seconds 6] [--certificates DIR] [-- FLAGS...]
    tls_cost.py --make-certificates DIR

FOLDER holds softmax-server and softmax-loadgen (a build folder will do). FLAGS go to both servers. Certificates are
made with the openssl program; where there is none, --certificates names a folder that --make-certificates made
elsewhere. Prints a line a pair of windows, and tables of medians with the ranges of the pairs' own ratios. Exit code 1:
a call failed, or the server never showed a changed certificate.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# Payload, shape, connections, in flight on each: the loads of docs/benchmarks.md.
LOADS = (("64 B", "1x16", 16, 8), ("64 KiB", "16x1024", 8, 4), ("1 MiB", "256x1024", 8, 2))
AUTHORITIES = ("first", "second")
PATIENCE = 60
SKIPPED = 77  # ctest shows a test as skipped that ends so


def fail(why):
    sys.exit(f"tls_cost.py: {why}")


def find(folder, name):
    for where, _, names in os.walk(folder):
        if name in names and os.access(os.path.join(where, name), os.X_OK):
            return os.path.abspath(os.path.join(where, name))
    return fail(f"there is no {name} in {folder}")


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"openssl {arguments[0]}: {done.stderr.strip()}")


def make_certificates(folder):
    """Two authorities, a certificate for localhost of each, and a file with both authorities."""
    if shutil.which("openssl") is None:
        print("tls_cost.py: there is no openssl; make certificates elsewhere and name them with --certificates")
        sys.exit(SKIPPED)
    os.makedirs(folder, exist_ok=True)
    bundle = ""
    for name in AUTHORITIES:
        path = lambda what, name=name: os.path.join(folder, f"{name}_{what}")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                "-subj", f"/CN={name} authority", "-keyout", path("ca.key"), "-out", path("ca.pem"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
                "-keyout", path("key.pem"), "-out", path("request.pem"))
        with open(path("names"), "w", encoding="ascii") as names:
            names.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", path("request.pem"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"),
                "-CAcreateserial", "-days", "30", "-extfile", path("names"), "-out", path("cert.pem"))
        with open(path("ca.pem"), encoding="ascii") as authority:
            bundle += authority.read()
    with open(os.path.join(folder, "both_ca.pem"), "w", encoding="ascii") as both:
        both.write(bundle)


class Server:
    """A started softmax-server on free loopback ports."""

    def __init__(self, program, flags, log):
        self.log = log
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen([program, "--address=127.0.0.1:0", "--metrics-address=none"] + flags,
                                            stdout=output, stderr=output)
        self.address = self._wait_for(r"listening on (\S+)")

    def _wait_for(self, pattern):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.log, encoding="utf-8") as text:
                found = re.search(pattern, text.read())
            if found:
                return found.group(1)
            time.sleep(0.02)
        with open(self.log, encoding="utf-8") as text:
            return fail(f"a server did not start:\n{text.read()}")

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Certificates:
    """Those that the server looks at, in a folder of their own."""

    def __init__(self, source, folder):
        self.source = source
        self.cert, self.key = (os.path.join(folder, name) for name in ("cert.pem", "key.pem"))
        self.ca = os.path.join(source, "both_ca.pem")
        self.place(AUTHORITIES[0])

    def place(self, name, pause=0.0):
        """The certificate, then its key, each in one step."""
        for what, path in (("cert.pem", self.cert), ("key.pem", self.key)):
            shutil.copy(os.path.join(self.source, f"{name}_{what}"), path + ".next")
            os.chmod(path + ".next", 0o600)
            os.replace(path + ".next", path)
            time.sleep(pause)


def shown_certificate(address, ca):
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            return secure.getpeercert(binary_form=True)


def load(program, address, flags, seconds, folder, warmup=0.3, verify=None):
    """The first run of the load generator's report."""
    handle, report = tempfile.mkstemp(".json", dir=folder)
    os.close(handle)
    checks = ["--no-verify"] if verify is None else ["--verify", str(verify)]
    done = subprocess.run([program, "--address", address, "--json", report, "--warmup", str(warmup), "--duration",
                           str(seconds), *checks, *flags], capture_output=True, text=True, timeout=seconds + 120,
                          check=False)
    if done.returncode not in (0, 1):
        return {"latency": {"count": 0}, "errors": {"NOT CONNECTED": 1}, "first_error": done.stderr.strip()}
    with open(report, encoding="utf-8") as text:
        run = json.load(text)["runs"][0]
    os.unlink(report)
    return run


def compare(arguments, programs, plain, secure, ca, folder):
    """Prints the pairs; returns a row of the table for each payload."""
    rows = []
    for payload, shape, connections, in_flight in LOADS:
        flags = ["--shape", shape, "--connections", str(connections), "--in-flight", str(in_flight)]
        sides = {"clear": (plain, flags), "TLS": (secure, flags + ["--ca", ca])}
        seen = {"clear": [], "TLS": []}
        for number in range(arguments.rounds):
            for side in list(sides) if number % 2 == 0 else reversed(sides):
                server, side_flags = sides[side]
                run = load(programs["softmax-loadgen"], server.address, side_flags, arguments.seconds, folder)
                if run["errors"] or run["latency"]["count"] == 0:
                    fail(f"{payload}, {side}: {run['errors']} {run['first_error']}")
                seen[side].append((run["achieved_per_s"], run["gb_per_s"], run["latency"]["percentiles"][0]["us"]))
            print(f"{payload:7} clear {seen['clear'][-1][0]:9.0f} calls/s   TLS {seen['TLS'][-1][0]:9.0f} calls/s",
                  flush=True)
        ratios = sorted(t[0] / c[0] for t, c in zip(seen["TLS"], seen["clear"]))
        middle = {side: [statistics.median(values) for values in zip(*runs)] for side, runs in seen.items()}
        rows.append((payload, connections * in_flight, middle, statistics.median(ratios), ratios[0], ratios[-1]))
    return rows


def print_table(rows):
    print("\n| payload | in flight | clear calls/s | TLS calls/s | clear GB/s | TLS GB/s | clear p50 us | TLS p50 us | "
          "TLS / clear | of the pairs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for payload, in_flight, middle, median, low, high in rows:
        clear, tls = middle["clear"], middle["TLS"]
        print(f"| {payload} | {in_flight} | {clear[0]:,.0f} | {tls[0]:,.0f} | {clear[1]:.3f} | {tls[1]:.3f} | "
              f"{clear[2]:,.0f} | {tls[2]:,.0f} | {median:.2f} | {low:.2f} to {high:.2f} |")


def swap(arguments, programs, secure, certificates, folder):
    """Certificates change while connections are open and new ones are made. True: no call failed."""
    stop = threading.Event()
    counts = {"old": [0, 0], "new": [0, 0]}
    problems, new_loads = [], [0]

    def account(kind, run):
        failed = sum(run["errors"].values()) + run.get("wrong", 0)
        counts[kind][0] += run["latency"]["count"]
        counts[kind][1] += failed
        if failed:
            problems.append(run["first_error"] or run.get("first_wrong"))

    def fresh():
        while not stop.is_set():
            account("new", load(programs["softmax-loadgen"], secure.address, flags, 0.1, folder, warmup=0, verify=1))
            new_loads[0] += 1

    flags = ["--shape", "4x300", "--connections", "4", "--in-flight", "2", "--ca", certificates.ca]
    kept = threading.Thread(target=lambda: account("old", load(
        programs["softmax-loadgen"], secure.address, flags, arguments.swap_seconds, folder, verify=0.1)))
    made = threading.Thread(target=fresh)
    kept.start()
    made.start()
    shown, swaps = set(), 0
    end = time.monotonic() + arguments.swap_seconds
    # A machine that is busy with something else gets more time for as much.
    while time.monotonic() < end or (time.monotonic() < end + PATIENCE and not problems and
                                     (counts["new"][0] == 0 or len(shown) < len(AUTHORITIES))):
        swaps += 1
        certificates.place(AUTHORITIES[swaps % 2], pause=0.05)
        secure.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        try:
            shown.add(shown_certificate(secure.address, certificates.ca))
        except OSError as error:  # ssl's too
            problems.append(f"looking at the certificate: {error}")
    stop.set()
    kept.join()
    made.join()
    print(f"\n{swaps} changes of certificates: {counts['old'][0]} calls on connections that stayed, {counts['old'][1]} "
          f"failed; {counts['new'][0]} calls on {new_loads[0] * 4} new ones, {counts['new'][1]} failed; "
          f"{len(shown)} certificates were seen")
    for problem in problems[:3]:
        print(f"the first: {problem}")
    return not problems and counts["old"][0] > 0 and counts["new"][0] > 0 and len(shown) == len(AUTHORITIES)


def run(arguments):
    programs = {name: find(arguments.folder, name) for name in ("softmax-server", "softmax-loadgen")}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        source = arguments.certificates
        if source is None:
            source = os.path.join(folder, "made")
            make_certificates(source)
        certificates = Certificates(source, folder)
        tls = ["--tls-cert", certificates.cert, "--tls-key", certificates.key]
        servers = []
        for name, flags in (("clear", []), ("tls", tls)):
            log = os.path.join(folder, name + ".log")
            servers.append(Server(programs["softmax-server"], arguments.flags + flags, log))
            running.callback(servers[-1].stop)
        if arguments.rounds > 0:
            print_table(compare(arguments, programs, *servers, certificates.ca, folder))
        good = arguments.swap_seconds <= 0 or swap(arguments, programs, servers[1], certificates, folder)
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--swap-seconds", type=float, default=6)
    parser.add_argument("--certificates")
    parser.add_argument("--make-certificates", metavar="DIR")
    command = sys.argv[1:]
    split = command.index("--") if "--" in command else len(command)
    arguments = parser.parse_args(command[:split])
    arguments.flags = command[split + 1:]
    if arguments.make_certificates:
        make_certificates(arguments.make_certificates)
        return 0
    if arguments.folder is None:
        parser.error("FOLDER is missing")
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
