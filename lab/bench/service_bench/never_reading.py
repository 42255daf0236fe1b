"""Clients that ask for large answers and never read them: just enough HTTP/2 to send a unary call and then stop."""
import select
import socket
import struct
import time

HEADERS, SETTINGS, PING, WINDOW_UPDATE, DATA = 1, 4, 6, 8, 0
# HPACK: indexed static fields and literals, no table.
CALL = (b"\x83\x86" + b"\x04" + b"\x22/softmax.v1.SoftmaxService/Softmax" + b"\x01\x09localhost"
        + b"\x0f\x10\x10application/grpc" + b"\x00\x02te\x08trailers")
LARGEST_WINDOW = 2**31 - 1
SEND_SECONDS = 60


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def softmax_message(payload_bytes):
    """A gRPC message: one SoftmaxRequest with a row of float32 zeros."""
    shape = varint(1) + varint(payload_bytes // 4)
    tensor = (b"\x08\x01" + b"\x12" + varint(len(shape)) + shape + b"\x7a" + varint(payload_bytes)
              + bytes(payload_bytes))
    request = b"\x7a" + varint(len(tensor)) + tensor
    return b"\x00" + struct.pack(">I", len(request)) + request


class Client:
    """One connection with calls. `shut_window`: answers may not even be sent; otherwise they may, as far as the socket
    takes them."""

    def __init__(self, address, shut_window):
        if address.startswith("unix:"):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(address[len("unix:"):])
        else:
            host, _, port = address.rpartition(":")
            self._socket = socket.socket()
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
            self._socket.connect((host, int(port)))
        self._socket.settimeout(SEND_SECONDS)
        window = 0 if shut_window else LARGEST_WINDOW
        # What the server lets us send: on the connection, on a stream at its beginning, and on each of ours.
        self._connection_window = self._initial_window = 65535
        self._windows = {}
        self._frame_bytes = 16384
        self._pending = b""
        self._send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))
        if not shut_window:
            self._send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - 65535)))

    def ask(self, message, calls):
        """Sends the message in `calls` calls. The last byte of each waits until the rest of all was sent: while frames
        are read for the windows that the server grants, there is no answer yet that would be read with them."""
        streams = [1 + 2 * i for i in range(calls)]
        for stream in streams:
            self._windows[stream] = self._initial_window
            self._send(frame(HEADERS, 4, stream, CALL))
            self._send_part(stream, memoryview(message)[:-1])
        while min(self._room(stream) for stream in streams) < calls:
            self._take_frames(1)
        for stream in streams:
            self._send(frame(DATA, 1, stream, message[-1:]))

    def close(self):
        self._socket.close()

    def _send_part(self, stream, view):
        at = 0
        until = time.monotonic() + SEND_SECONDS
        while at < len(view):
            self._take_frames(0 if self._room(stream) > 0 else 1)
            size = min(self._room(stream), len(view) - at, self._frame_bytes)
            if size <= 0:
                if time.monotonic() > until:
                    raise TimeoutError("the server grants no window for the request")
                continue
            self._send(frame(DATA, 0, stream, bytes(view[at:at + size])))
            at += size
            self._connection_window -= size
            self._windows[stream] -= size

    def _room(self, stream):
        return min(self._connection_window, self._windows[stream])

    def _send(self, data):
        self._socket.sendall(data)

    def _take_frames(self, seconds):
        while select.select([self._socket], [], [], seconds)[0]:
            got = self._socket.recv(65536)
            if not got:
                raise ConnectionError("the server closed the connection before the request was sent")
            self._pending += got
            seconds = 0
        while len(self._pending) >= 9:
            length = int.from_bytes(self._pending[:3], "big")
            if len(self._pending) < 9 + length:
                return
            kind, flags = self._pending[3], self._pending[4]
            stream = int.from_bytes(self._pending[5:9], "big")
            self._take(kind, flags, stream, self._pending[9:9 + length])
            self._pending = self._pending[9 + length:]

    def _take(self, kind, flags, stream, body):
        if kind == WINDOW_UPDATE:
            grant = int.from_bytes(body, "big") & LARGEST_WINDOW
            if stream == 0:
                self._connection_window += grant
            else:
                self._windows[stream] += grant
        elif kind == SETTINGS and not flags & 1:
            for at in range(0, len(body), 6):
                name, value = struct.unpack(">HI", body[at:at + 6])
                if name == 4:
                    self._windows = {s: window + value - self._initial_window for s, window in self._windows.items()}
                    self._initial_window = value
                elif name == 5:
                    self._frame_bytes = min(value, 1 << 20)
            self._send(frame(SETTINGS, 1, 0))
        elif kind == PING and not flags & 1:
            self._send(frame(PING, 1, 0, body))
