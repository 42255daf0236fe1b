"""Sections on the size of the machine and of the fleet of clients: numbers of queue threads, and idle connections.

As a program, `fleets.py ADDRESS N` holds N connections that speak HTTP/2 and make no call, until its input ends."""
import dataclasses
import functools
import resource
import select
import socket
import subprocess
import sys

THREAD_PAYLOADS = (64, 4 << 10, 64 << 10, 1 << 20)
ITSELF = "itself"
IDLE = (0, 2000, 4000)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, ACK = 4, 6, 1  # of HTTP/2
HEAD_BYTES = 9


def queue_numbers(cores):
    """From a quarter of the cores to as many."""
    return sorted({max(1, cores * eighths // 8) for eighths in (2, 3, 4, 6, 8)})


def thread_cells(bench):
    """Echo and service with each number of queues, and the service with what it chooses itself."""
    import plan  # not for the program

    cells = []
    for payload in [p for p in THREAD_PAYLOADS if p in bench.payloads]:
        load = plan.saturation(payload, bench.processes)
        contenders = {}
        for backend in [b for b in ("echo", bench.service) if b not in bench.without]:
            for queues in queue_numbers(bench.cores) + ([ITSELF] if backend == bench.service else []):
                def window(backend=backend, queues=queues, payload=payload, load=load):
                    server = bench.fleet.server(backend, name=f"{backend}_{queues}",
                                                queues=None if queues == ITSELF else queues)
                    return plan.window_of(bench, server, backend, payload, load)
                contenders[f"{backend}/{queues}"] = plan.Contender(window)
        cells.append(plan.Cell("threads", f"tcp {payload}", contenders))
    return cells


def crowd_cells(bench):
    """24 busy connections, and one call at a time, beside idle connections."""
    import plan

    def window(idle, load):
        server = bench.fleet.server(bench.service)
        with Idle(server.tcp, idle):
            return plan.window_of(bench, server, bench.service, 64, load)

    busy = dataclasses.replace(plan.saturation(64, bench.processes), connections=24)
    return [plan.Cell("crowd", name, {f"{idle} idle": plan.Contender(functools.partial(window, idle, load))
                                      for idle in IDLE})
            for name, load in (("24 busy", busy), ("one call at a time", plan.ONE_BY_ONE))]


class Idle:
    """So many idle connections, of a process of their own."""

    def __init__(self, address, count):
        self._command = [sys.executable, "-B", __file__, address, str(count)]
        self._process = None

    def __enter__(self):
        import programs

        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         preexec_fn=programs.end_with_parent)
        if self._process.stdout.readline() != b"ready\n":
            self.__exit__()
            raise RuntimeError(" ".join(self._command) + ": no connections")

    def __exit__(self, *_):
        self._process.communicate()
        if self._process.returncode != 0:
            raise RuntimeError(" ".join(self._command) + ": an idle connection was closed")


def frame(kind, flags=0, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + bytes(4) + payload


def pings_of(received):
    """The payloads of the pings in whole frames that want an answer."""
    while len(received) >= HEAD_BYTES:
        end = HEAD_BYTES + int.from_bytes(received[:3], "big")
        if received[3] == PING and not received[4] & ACK:
            yield received[HEAD_BYTES:end]
        received = received[end:]


def hold(address, count):
    host, port = address.rsplit(":", 1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    poll, connections = select.epoll(), {}
    for _ in range(count):
        connection = socket.create_connection((host, int(port)), timeout=30)
        connection.sendall(PREFACE + frame(SETTINGS))
        connection.recv(1 << 16)
        connection.sendall(frame(SETTINGS, ACK))
        connections[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN)
    print("ready", flush=True)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == sys.stdin.fileno():
                return 0
            received = connections[descriptor].recv(1 << 16)
            if not received:
                return 1
            for ping in pings_of(received):
                connections[descriptor].sendall(frame(PING, ACK, ping))


if __name__ == "__main__":
    sys.exit(hold(sys.argv[1], int(sys.argv[2])))
