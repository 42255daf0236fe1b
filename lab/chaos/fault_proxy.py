#!/usr/bin/env python3
"""A TCP proxy that does to connections what networks do: fault_proxy.py LISTEN:UPSTREAM ... (ports of 127.0.0.1).

Reads orders from its standard input, one a line, and ends with it:
    INDEX pass                 as a wire
    INDEX delay MS             each piece of data so much later
    INDEX throttle BYTES       bytes a second, in each direction of each connection
    INDEX partition            nothing gets through, and nobody is told: neither data nor ends nor new connections
    INDEX refuse               new connections are reset
    INDEX corrupt              one bit of every large piece from the server is turned (what TCP does not let happen:
                               for showing that wrong answers are found)
    INDEX reset                at once: every connection is reset
    INDEX cut BYTES            at once: every connection is reset after BYTES bytes more, within a message
    INDEX half up|down         at once: towards the server or the client, every connection's end is told, and no more
                               data goes that way
Answers each with a line `INDEX CONNECTIONS`. Holds at most 64 KiB a direction of a connection."""
import asyncio
import os
import socket
import struct
import sys

PIECE = 65536
LARGE = 4096


def reset(writer):
    """Closes with RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    writer.transport.abort()


class Way:
    """One direction of a connection."""

    def __init__(self, proxy, reader, writer, from_server):
        self._proxy, self._reader, self.writer, self._from_server = proxy, reader, writer, from_server
        self.ended = False
        self.left = None  # bytes until the connection is cut

    async def _forward(self, data):
        if self._proxy.corrupt and self._from_server and len(data) >= LARGE:
            data = bytearray(data)
            data[len(data) // 2] ^= 0x10
        if self._proxy.delay_s:
            await asyncio.sleep(self._proxy.delay_s)
        if self._proxy.bytes_per_s:
            await asyncio.sleep(len(data) / self._proxy.bytes_per_s)
        await self._proxy.wait_until_open()
        if self.ended:
            return True
        if self.left is not None:
            self.writer.write(data[:self.left])
            self.left -= len(data)
            return self.left > 0
        self.writer.write(data)
        await self.writer.drain()
        return True

    async def run(self):
        """Until its end. True: in order."""
        while True:
            await self._proxy.wait_until_open()
            # Slow ways take small pieces, so that the time of one stays short.
            size = PIECE if not self._proxy.bytes_per_s else max(64, min(PIECE, self._proxy.bytes_per_s // 10))
            data = await self._reader.read(size)
            if not data:
                await self._proxy.wait_until_open()
                if not self.ended and self.writer.can_write_eof():
                    self.writer.write_eof()
                return True
            if not await self._forward(data):
                return False


class Proxy:
    def __init__(self, listen, upstream):
        self._listen, self._upstream = listen, upstream
        self.delay_s, self.bytes_per_s, self.corrupt, self._refuse = 0, 0, False, False
        self._open = asyncio.Event()
        self._open.set()
        self.connections = set()

    async def start(self):
        await asyncio.start_server(self._serve, "127.0.0.1", self._listen, limit=PIECE)

    async def wait_until_open(self):
        await self._open.wait()

    async def _serve(self, reader, writer):
        await self.wait_until_open()
        if self._refuse:
            return reset(writer)
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._upstream, limit=PIECE)
        except OSError:
            return reset(writer)  # a server that is away refuses
        for one in (writer, upstream_writer):
            one.transport.set_write_buffer_limits(high=PIECE)
        up = Way(self, reader, upstream_writer, False)
        down = Way(self, upstream_reader, writer, True)
        self.connections.add((up, down))
        ways = [asyncio.ensure_future(way.run()) for way in (up, down)]
        try:
            # Both to their ends; or until one of them breaks or is cut, which breaks the other.
            for done in asyncio.as_completed(ways):
                if not await done:
                    break
            else:
                writer.close()
                upstream_writer.close()
        except OSError:
            pass
        finally:
            self.connections.discard((up, down))
            for way in ways:
                way.cancel()
            reset(writer)
            reset(upstream_writer)

    def order(self, name, argument):
        if name in ("pass", "delay", "throttle", "partition", "refuse", "corrupt"):
            self.delay_s = float(argument) / 1000 if name == "delay" else 0
            self.bytes_per_s = int(argument) if name == "throttle" else 0
            self._refuse, self.corrupt = name == "refuse", name == "corrupt"
            (self._open.clear if name == "partition" else self._open.set)()
        elif name == "reset":
            for up, down in list(self.connections):
                reset(up.writer)
                reset(down.writer)
        elif name == "cut":
            for _, down in self.connections:
                down.left = int(argument)
        elif name == "half":
            for up, down in self.connections:
                way = up if argument == "up" else down
                if not way.ended and way.writer.can_write_eof():
                    way.ended = True
                    way.writer.write_eof()
        else:
            raise ValueError(name)


async def main():
    proxies = []
    for pair in sys.argv[1:]:
        listen, upstream = map(int, pair.split(":"))
        proxies.append(Proxy(listen, upstream))
        await proxies[-1].start()
    print("ready", flush=True)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := (await orders.readline()).decode().split():
        proxy = proxies[int(line[0])]
        proxy.order(line[1], line[2] if len(line) > 2 else "")
        print(line[0], len(proxy.connections), flush=True)
    os._exit(0)  # whatever is still open


if __name__ == "__main__":
    asyncio.run(main())
