"""Servers on ports of their own behind fault proxies."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/support"))
import hostile  # noqa: E402
from waiting import eventually  # noqa: E402

FLAGS = ["--backend=cpu", "--cpu-threads=2", "--threads=1", "--arena-bytes=64MiB", "--max-request-bytes=16MiB",
         "--max-response-bytes=16MiB", "--max-connections=512", "--memory-quota=256MiB", "--answer-timeout=5s",
         "--max-unread-bytes-per-connection=16MiB", "--keepalive-time=10s", "--keepalive-timeout=5s",
         "--drain-delay=300ms", "--drain-timeout=10s", "--slow-request=100ms"]
CLOCKS = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Replica:
    """One server program, on the same ports however often it is started. `log` may be /dev/full; with `clock`, a file,
    its wall clock can be stepped (libfaketime, where it is installed)."""

    def __init__(self, program, port, metrics_port, log, clock=None, flags=()):
        self.port, self._metrics_port, self._log = port, metrics_port, log
        given = {flag.split("=")[0] for flag in flags}
        self._command = [program, f"--address=127.0.0.1:{port}", f"--metrics-address=127.0.0.1:{metrics_port}",
                         f"--regions-socket={hostile.regions_socket(port)}", "--regions-bytes=32MiB",
                         *[flag for flag in FLAGS if flag.split("=")[0] not in given], *flags]
        self._clock = clock if clock is not None and CLOCKS.exists() else None
        self.process = None
        self.starts = 0

    def start(self):
        environment = dict(os.environ)
        if self._clock is not None:
            self.step_clock(0)
            environment.update(LD_PRELOAD=str(CLOCKS), FAKETIME_TIMESTAMP_FILE=str(self._clock), FAKETIME_NO_CACHE="1",
                               DONT_FAKE_MONOTONIC="1")
        with open(self._log, "a") as out:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env=environment)
        self.starts += 1

    def step_clock(self, seconds):
        """False: it cannot be done here."""
        if self._clock is None:
            return False
        self._clock.write_text(f"{seconds:+d}s\n")
        return True

    def metrics(self):
        """The scrape as {name or name{labels}: value}; None: no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def wait_ready(self, seconds):
        def ready():
            return (self.metrics() or {}).get("softmax_ready") == 1
        return eventually(lambda: not self.is_running() or ready(), seconds) and self.is_running()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()

    def end(self, seconds=90):
        """Its exit code after SIGTERM; None: it did not end."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def held(self):
        """What it has of memory (bytes), descriptors and threads."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {"rss": int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024,
                "descriptors": len(os.listdir(f"/proc/{self.process.pid}/fd")),
                "threads": int(re.search(r"Threads:\s+(\d+)", status).group(1))}


class Proxies:
    def __init__(self, pairs):
        self._process = subprocess.Popen([sys.executable, HERE / "fault_proxy.py", *[f"{a}:{b}" for a, b in pairs]],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"

    def order(self, index, *words):
        """Returns the number of connections."""
        self._process.stdin.write(" ".join([str(index), *map(str, words)]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline().split()[1])

    def close(self):
        self._process.stdin.close()
        self._process.wait(10)


class OpenLoop:
    """softmax-open-loop, its last words in `counts`."""

    def __init__(self, program, targets, rate, deadline_ms, seed, attempts, errors, must_end_ms=None):
        command = [program, ",".join(targets), str(rate), str(deadline_ms), str(seed), str(attempts)]
        self._process = subprocess.Popen(command + ([str(must_end_ms)] if must_end_ms else []), stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=errors, text=True)

    def is_running(self):
        return self._process.poll() is None

    def stop(self):
        """The last line, or the last one there was with "done" false when the program broke."""
        out, _ = self._process.communicate(timeout=600)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if not lines:
            return {"done": False}
        return lines[-1] | {"longest_ms": max(line["longest_ms"] for line in lines)}
