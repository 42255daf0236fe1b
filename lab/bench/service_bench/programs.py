"""The programs that are measured: found, started on loopback, watched and ended."""
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../../tests/support"))  # scripts/gpu_pack.sh puts what is needed of it here
from waiting import eventually  # noqa: E402

START_SECONDS = 120  # pinning memory, loading kernels or importing torch
SKIPPED = 77
SERVICE_BACKENDS = ("cuda", "cpu", "null")
BACKENDS = ("echo", "echo_c", "echo_copy", "sink") + SERVICE_BACKENDS + ("sync_baseline", "torch")
# The column `server` of the results.
SERVERS = {"echo": "softmax-echo-server", "echo_c": "softmax-echo-server", "echo_copy": "softmax-echo-server",
           "sink": "softmax-echo-server",
           "sync_baseline": "softmax-sync-baseline", "torch": "torch_baseline",
           **{backend: "softmax-server" for backend in SERVICE_BACKENDS}}


PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


def end_with_parent():
    """For preexec_fn: the process is ended when this one is, even by a signal that leaves no time for anything."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Missing(Exception):
    """A program cannot run here; the text says why in one line."""


def find(folder, name):
    """A built program, in a build folder or in one that scripts/gpu_pack.sh made."""
    direct = os.path.join(folder, name)
    if os.path.isfile(direct) and os.access(direct, os.X_OK):
        return direct
    for path, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f != "CMakeFiles"]
        if name in names and os.access(os.path.join(path, name), os.X_OK):
            return os.path.join(path, name)
    raise Missing(f"{name} is not in {folder}")


class Server:
    """One running server. `tcp` and `unix` are its addresses, `metrics` the address of its /metrics or None."""

    def __init__(self, backend, command, log):
        self.backend = backend
        self._log = log
        self.said = ""
        with open(log, "wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT,
                                             preexec_fn=end_with_parent)
        self.pid = self._process.pid
        try:
            self.tcp = self._wait(r"listening on (127\.0\.0\.1:\d+)")
            self.unix = self._wait(r"listening on (unix:\S+)")
            self.metrics = self._wait(r"metrics on (127\.0\.0\.1:\d+)") if backend in SERVICE_BACKENDS else None
        except BaseException:  # a signal too: nobody else knows of this process yet
            self.stop()
            raise

    def address(self, transport):
        return self.tcp if transport == "tcp" else self.unix

    def gauge(self, name):
        """One of the service's /metrics."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=20) as answer:
            return float(re.search(f"^{name} (.*)$", answer.read().decode(), re.MULTILINE).group(1))

    def alive(self):
        return self._process.poll() is None

    def stop(self):
        """Its exit code; negative: the signal that ended it."""
        if self.alive():
            self._process.terminate()
        try:
            return self._process.wait(45)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _wait(self, pattern):
        def look():
            ended = self._process.poll() is not None
            with open(self._log, encoding="utf-8", errors="replace") as file:
                self.said = file.read()
            return re.search(pattern, self.said) or ended
        found = eventually(look, START_SECONDS)
        if isinstance(found, re.Match):
            return found.group(1)
        last = self.said.strip().splitlines()[-1:] or ["it said nothing"]
        if found and self._process.returncode == SKIPPED:
            raise Missing(last[0])
        raise RuntimeError(f"{self.backend} did not start: {last[0]}")


class Fleet:
    """Starts each server when it is first needed and ends all of them at the end."""

    def __init__(self, folder, logs, service, server_flags=(), queues=None, numpy=False):
        """`service`: the backend (cuda or cpu) that the baselines are compared with, and compute on."""
        self.folder = folder
        self._service = service
        self._logs = logs
        self._flags = list(server_flags)
        self._queues = queues
        self._numpy = numpy
        self.failures = []  # servers that did not end well
        self._running = {}
        self._why_missing = {}
        self._sockets = tempfile.TemporaryDirectory(prefix="bench")  # a socket's path is short

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self._running):
            self.stop(name)
        self._sockets.cleanup()

    def server(self, backend, extra=(), name=None, queues=None):
        """`extra` flags, and another number of queues, need a `name` of their own."""
        name = name or backend
        if name in self._why_missing:
            raise Missing(self._why_missing[name])
        if name not in self._running:
            try:
                command = self._command(backend, name, queues or self._queues) + list(extra)
                self._running[name] = Server(backend, command, os.path.join(self._logs, f"{name}.log"))
            except Missing as missing:
                self._why_missing[name] = str(missing)
                raise
        if not self._running[name].alive():
            raise RuntimeError(f"{name} ended by itself; its log is {os.path.join(self._logs, name)}.log")
        return self._running[name]

    def socket(self, name):
        return os.path.join(self._sockets.name, name)

    def stop(self, name):
        if name not in self._running:
            return
        code = self._running.pop(name).stop()
        if code != 0:
            self.failures.append(f"FAILED {name}: ended with {code}; its log is {self._logs}/{name}.log")

    def why_missing(self, backend):
        """None where it runs."""
        try:
            self.server(backend)
        except Missing as missing:
            return str(missing)
        return None

    def _command(self, backend, name, queues):
        threads = ["--threads", str(queues)] if queues else []
        unix = "unix:" + self.socket(name)
        addresses = ["--address", "127.0.0.1:0", "--address", unix]
        if backend in ("echo", "echo_c", "echo_copy", "sink"):
            flags = {"echo": [], "echo_copy": ["--copy"]}.get(backend, ["--c-interface"])
            return [find(self.folder, "softmax-echo-server")] + addresses + threads + flags
        if backend == "sync_baseline":
            return ([find(self.folder, "softmax-sync-baseline")] + addresses
                    + ([] if self._service == "cuda" else ["--cpu"]))
        if backend == "torch":
            return ([sys.executable, "-B", os.path.join(HERE, "..", "torch_baseline.py"), "--generated",
                     self._generated(), "--device", self._service] + addresses
                    + (["--numpy"] if self._numpy else []))
        return ([find(self.folder, "softmax-server"), "--backend", backend, "--metrics-address", "127.0.0.1:0"]
                + addresses + threads + (["--unsafe-testing"] if backend == "null" else []) + self._flags)

    def _generated(self):
        for path, _, names in os.walk(self.folder):
            if "softmax_pb2.py" in names:
                return os.path.dirname(os.path.dirname(path))
        raise Missing(f"softmax_pb2.py is not in {self.folder}")
