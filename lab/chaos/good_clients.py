#!/usr/bin/env python3
"""Clients that are slow, silent or many, but mean no harm: none of them is cut.
good_clients.py SERVER SECONDS, by the distribution's grpcio (exit code 77 without it).

A line for each kind says what it did; the exit code is 1 when a connection was ended or a call failed."""
import contextlib
import os
import pathlib
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab/bench/service_bench"), str(ROOT / "tests/support")]
import never_reading  # noqa: E402
from waiting import eventually, let_pass  # noqa: E402

DISTRIBUTION_PYTHON = "/usr/bin/python3"
try:
    import grpc
except ImportError:
    # It belongs to the distribution's Python; another may stand before that one in PATH.
    if sys.executable != DISTRIBUTION_PYTHON and os.path.exists(DISTRIBUTION_PYTHON):
        os.execv(DISTRIBUTION_PYTHON, [DISTRIBUTION_PYTHON, "-B", *sys.argv])
    print("no python3-grpcio")
    sys.exit(77)

SOFTMAX = "/softmax.v1.SoftmaxService/Softmax"
STREAM = "/softmax.v1.SoftmaxService/SoftmaxStream"
WATCH = "/grpc.health.v1.Health/Watch"
IDLE_CONNECTIONS = 4096
CANCELLED_CALLS = 256
ACK = 1
UPLOAD_BYTES = 64 << 20
# No room for a second connection of a channel that lost its first: it would be seen as an error.
NO_LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
             ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
PINGS = [("grpc.keepalive_time_ms", 10000), ("grpc.keepalive_permit_without_calls", 1),
         ("grpc.http2.max_pings_without_data", 0)]


class Failure(Exception):
    pass


def request(payload_bytes):
    """A SoftmaxRequest with a row of float32 zeros."""
    return never_reading.softmax_message(payload_bytes)[5:]


def check_answer(answer, payload_bytes):
    columns = payload_bytes // 4
    if not answer.endswith(struct.pack("<f", 1 / columns)) or len(answer) < payload_bytes:
        raise Failure(f"a wrong answer of {len(answer)} bytes to {payload_bytes}")


class Relay:
    """A wire that carries `bytes_per_s` towards the server, in pieces of `piece` bytes; back, as a wire does. Counts
    the connections that the server was the first to end."""

    def __init__(self, port, piece, bytes_per_s):
        self._port, self._piece, self._pause = port, piece, piece / bytes_per_s
        self.ended_by_server = 0
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            # Small buffers: the client learns the wire's speed from them.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            far = socket.create_connection(("127.0.0.1", self._port))
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            threading.Thread(target=self._up, args=(near, far), daemon=True).start()
            threading.Thread(target=self._down, args=(near, far), daemon=True).start()

    def _up(self, near, far):
        due = time.monotonic()
        with contextlib.suppress(OSError):
            while data := near.recv(max(self._piece, 4096)):
                for at in range(0, len(data), self._piece):
                    far.sendall(data[at:at + self._piece])
                    due = max(due, time.monotonic() - 0.1) + self._pause
                    let_pass(due - time.monotonic())
            far.shutdown(socket.SHUT_WR)
            near.close()

    def _down(self, near, far):
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                near.sendall(data)
        if near.fileno() >= 0:
            self.ended_by_server += 1


class Kind(threading.Thread):
    """One kind of client, until the time is over; `done` counts what it did."""

    def __init__(self, name, run):
        super().__init__(daemon=True)
        self.name, self._run_kind = name, run
        self.done, self.error, self.remark = 0, None, ""

    def run(self):
        try:
            self._run_kind(self)
        except (Failure, OSError, grpc.RpcError) as error:
            self.error = f"{type(error).__name__}: {str(error)[:300]}"


def calls_over(relay, payload_bytes, until):
    """One call after another by a slow wire."""
    def run(kind):
        with grpc.insecure_channel(relay.address, NO_LIMITS) as channel:
            call = channel.unary_unary(SOFTMAX)
            while time.monotonic() < until:
                check_answer(call(request(payload_bytes), timeout=300), payload_bytes)
                kind.done += 1
            if relay.ended_by_server or relay.connections != 1:
                raise Failure(f"{relay.connections} connections, {relay.ended_by_server} ended by the server")
    return run


def cancelling(address, until):
    """256 calls in flight, cancelled at once, again and again; a call after that is answered."""
    def run(kind):
        with grpc.insecure_channel(address, NO_LIMITS) as channel:
            call = channel.unary_unary(SOFTMAX)
            while time.monotonic() < until:
                for future in [call.future(request(65536), timeout=60) for _ in range(CANCELLED_CALLS)]:
                    future.cancel()
                    kind.done += 1
                check_answer(call(request(400), timeout=60), 400)
                let_pass(0.5)
    return run


def nothing_until(over):
    """A stream's requests: none."""
    over.wait()
    yield from ()


def pinging(address, until, what):
    """An idle channel, an open watch, or an open stream, with a ping every ten seconds: always the same connection."""
    def run(kind):
        with grpc.insecure_channel(address, NO_LIMITS + PINGS) as channel:
            grpc.channel_ready_future(channel).result(60)
            lost = []
            channel.subscribe(lambda state: lost.append(state) if state != grpc.ChannelConnectivity.READY else None)
            over = threading.Event()
            call = None
            if what == "watch":
                call = channel.unary_stream(WATCH)(b"")
                next(call)
            elif what == "stream":
                call = channel.stream_stream(STREAM)(nothing_until(over))
            eventually(lambda: lost or (call is not None and not call.is_active()), until - time.monotonic(), 0.1)
            if lost:
                raise Failure(f"the channel became {lost[0]}")
            if call is not None and not call.is_active():
                raise Failure(f"the call ended: {call.code()} {call.details()}")
            kind.done = 1
            over.set()
    return run


class Idle:
    """A connection that has greeted and answers the server's pings."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + never_reading.frame(never_reading.SETTINGS, 0, 0)
                            + never_reading.frame(never_reading.SETTINGS, ACK, 0))
        self._read = b""

    def take(self):
        """What has come: answers pings, and says which of its own were answered."""
        data = self.socket.recv(65536)
        if not data:
            raise Failure("an idle connection was ended")
        self._read += data
        answered = []
        while len(self._read) >= 9 and len(self._read) >= 9 + int.from_bytes(self._read[:3], "big"):
            size, kind, flags = int.from_bytes(self._read[:3], "big"), self._read[3], self._read[4]
            body, self._read = self._read[9:9 + size], self._read[9 + size:]
            if kind == never_reading.PING and flags & ACK:
                answered.append(body)
            elif kind == never_reading.PING:
                self.socket.sendall(never_reading.frame(never_reading.PING, ACK, 0, body))
        return answered


def idle(port, until):
    """Connections that ask for nothing; at the end each answers a ping."""
    def run(kind):
        with contextlib.ExitStack() as opened, selectors.DefaultSelector() as ready:
            clients = [Idle(port) for _ in range(IDLE_CONNECTIONS)]
            for client in clients:
                opened.enter_context(client.socket)
                ready.register(client.socket, selectors.EVENT_READ, client)
            while time.monotonic() < until:
                for key, _ in ready.select(1):
                    key.data.take()
            for client in clients:
                client.socket.sendall(never_reading.frame(never_reading.PING, 0, 0, b"are here"))
                while b"are here" not in client.take():
                    pass
                kind.done += 1
    return run


def start(program):
    server = subprocess.Popen(
        [program, "--backend=cpu", "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
         f"--max-connections={IDLE_CONNECTIONS + 100}"], stderr=subprocess.PIPE, text=True)
    found = {}
    for line in server.stderr:
        for what in ("listening on ", "metrics on "):
            if what in line:
                found[what] = line.split(what)[1].strip()
        if len(found) == 2:
            break
    threading.Thread(target=lambda: [print(line, end="") for line in server.stderr], daemon=True).start()
    return server, found["listening on "], found["metrics on "]


def connections_ended(metrics):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{metrics}/metrics", timeout=60) as page:
        text = page.read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith("softmax_connections_ended_total{"))


def main():
    program, seconds = sys.argv[1], float(sys.argv[2])
    server, address, metrics = start(program)
    port = int(address.rpartition(":")[2])
    until = time.monotonic() + seconds
    kinds = [
        Kind("1 byte a segment, 64-byte calls", calls_over(Relay(port, 1, 2000), 64, until)),
        Kind("1 KiB/s, 4 KiB calls", calls_over(Relay(port, 256, 1024), 4096, until)),
        Kind("1 MiB/s, 64 MiB calls", calls_over(Relay(port, 16384, 1 << 20), UPLOAD_BYTES, until)),
        Kind(f"{CANCELLED_CALLS} calls cancelled at once", cancelling(address, until)),
        Kind(f"{IDLE_CONNECTIONS} idle connections", idle(port, until)),
        *[Kind(f"pings every 10 s, {what}", pinging(address, until, what)) for what in ("idle", "watch", "stream")],
    ]
    for kind in kinds:
        kind.start()
    for kind in kinds:
        kind.join(seconds + 400)
        if kind.is_alive():
            kind.error = "did not end"
    ended = connections_ended(metrics)
    server.terminate()
    code = server.wait(60)
    for kind in kinds:
        print(f"{kind.name:36} {kind.done:7}  {kind.error or 'none cut'}")
    print(f"connections ended by the server {ended:.0f}, its exit code {code}")
    return 1 if ended or code or any(kind.error or kind.done == 0 for kind in kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
