"""Clients that mean no good, each for some seconds and straight at a server's port."""
import contextlib
import mmap
import os
import socket
import sys
import threading
import time
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab/bench/service_bench"), str(ROOT / "tests/support")]
import never_reading  # noqa: E402
from waiting import let_pass  # noqa: E402

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def never_read(port, seconds, random):
    """Asks for 2 MiB four times and reads none of it, half of them with an open window. Stays for longer than a server
    may keep its answers."""
    try:
        client = never_reading.Client(f"127.0.0.1:{port}", shut_window=random.random() < 0.5)
        client.ask(never_reading.softmax_message(2 << 20), 4)
    except OSError:
        return  # refused, or closed: as it should be at times
    let_pass(seconds + 40)
    client.close()


def garbage(port, seconds, random):
    """Random bytes from the start, or behind a right preface, or inside a gRPC message."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        kind = random.randrange(4)
        begin = [b"", PREFACE, b"GET / HTTP/1.1\r\n\r\n", PREFACE + never_reading.frame(4, 0, 0)][kind]
        if kind == 3:
            body = b"\x00\x00\x00\x01\x00" + random.randbytes(256)
            begin += never_reading.frame(1, 4, 1, never_reading.CALL) + never_reading.frame(0, 1, 1, body)
        try:
            with _connect(port) as sock:
                sock.sendall(begin + (random.randbytes(random.randrange(2000)) if kind < 2 else b""))
                sock.settimeout(0.2)
                sock.recv(4096)
        except OSError:
            pass
        let_pass(0.02)


def trickle(port, seconds, random):
    """A call's message at some bytes a second, on twenty connections."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        sockets = []
        for _ in range(20):
            sock = opened.enter_context(_connect(port))
            sock.sendall(PREFACE + never_reading.frame(4, 0, 0) + never_reading.frame(1, 4, 1, never_reading.CALL))
            sockets.append(sock)
        message = never_reading.softmax_message(1 << 20)
        until = time.monotonic() + seconds
        for i in range(10**6):
            if time.monotonic() > until:
                return
            for sock in sockets:
                sock.sendall(never_reading.frame(0, 0, 1, message[i:i + 1]))
            let_pass(0.2 + 0.1 * random.random())


def silent(port, seconds, random):
    """Connections that say nothing, or half a preface."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(_connect(port)).sendall(PREFACE[:random.randrange(len(PREFACE))])
        let_pass(seconds)


def storm(port, seconds, random):
    """Connections that are reset at once."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        try:
            sock.bind((f"127.0.{random.randrange(1, 255)}.{random.randrange(1, 255)}", 0))
            sock.connect(("127.0.0.1", port))
        except OSError:
            pass
        sock.close()
        let_pass(0.001)


def regions_socket(port):
    """Of the server with this port."""
    return f"/tmp/softmax-regions.{port}"


def regions(port, seconds, random):
    """Memory that is asked for and left in every state, scribbled in and kept mapped; and rubbish on its socket."""
    allocate = b"\x0a\x06\x08\x01\x10\x80\x80\x04"  # 64 KiB of the host's
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(5)
            sock.connect(regions_socket(port))
            kind = random.randrange(4)
            for _ in range(50 if kind == 0 else 1):
                sock.send(random.randbytes(random.randrange(1, 5000)) if kind == 1 else allocate, socket.MSG_DONTWAIT)
            if kind == 3:
                _, descriptors, _, _ = socket.recv_fds(sock, 4096, 1)
                for descriptor in descriptors:
                    with mmap.mmap(descriptor, 65536) as memory:
                        memory[:] = random.randbytes(65536)
                        sock.close()
                        memory[:] = random.randbytes(65536)
                    os.close(descriptor)
        let_pass(0.005)


KINDS = [never_read, garbage, trickle, silent, storm, regions]


def start(kind, port, seconds, random):
    """In a thread of its own, which ends by itself."""
    thread = threading.Thread(target=kind, args=(port, seconds, random), daemon=True)
    thread.start()
    return thread
