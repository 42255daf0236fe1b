"""The client for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Dict, Optional, Tuple

from ._streams import StreamCalls
from .client import NativeOwner
from .options import Summary, Trace, request_of, summary_request_of, trace_of


class AsyncClient(NativeOwner):
    """softmax_client.Client for asyncio: the same options, arrays and errors.

    Belongs to the event loop of its first call. An asynchronous context manager. A task that is cancelled cancels its
    call.

        async with softmax_client.AsyncClient("localhost:50051") as client:
            answers = await asyncio.gather(*(client.softmax(x) for x in arrays))
    """

    _loop: Optional[asyncio.AbstractEventLoop] = None

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("this client belongs to another event loop")
        loop.add_reader(self._calls.fd(), self._calls.deliver)
        self._loop = loop

    async def _call(self, x: Any, out: Any, request: Any) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._attach(loop)
        future = loop.create_future()
        tag = self._calls.start(x, out, request, future)
        try:
            return await future
        except asyncio.CancelledError:
            self._calls.cancel(tag)
            raise

    async def softmax(self, x: Any, *, axis: int = -1, scale: Optional[float] = None, dtype: Any = None,
                      lengths: Any = None, out: Any = None, timeout: Optional[float] = None,
                      trace: Trace = None) -> Any:
        """As Client.softmax. With `out` the answer is copied once more."""
        return await self._call(x, out, request_of(False, axis, scale, dtype, lengths, timeout, trace))

    async def log_softmax(self, x: Any, *, axis: int = -1, scale: Optional[float] = None, dtype: Any = None,
                          lengths: Any = None, out: Any = None, timeout: Optional[float] = None,
                      trace: Trace = None) -> Any:
        """As Client.log_softmax. With `out` the answer is copied once more."""
        return await self._call(x, out, request_of(True, axis, scale, dtype, lengths, timeout, trace))

    async def summarize(self, x: Any, *, top_k: int = 0, indices: Any = None, log_sum_exp: bool = False,
                        entropy: bool = False, log: bool = False, axis: int = -1, scale: Optional[float] = None,
                        dtype: Any = None, lengths: Any = None, timeout: Optional[float] = None,
                        trace: Trace = None) -> Summary:
        """As Client.summarize."""
        request = request_of(log, axis, scale, dtype, lengths, timeout, trace)
        return Summary(*await self._call(x, None, summary_request_of(request, top_k, indices, log_sum_exp, entropy)))

    def stream(self, *, max_in_flight: int = 256, max_requests_per_message: int = 64,
               timeout: Optional[float] = None, trace: Trace = None) -> "AsyncStream":
        """As Client.stream."""
        return AsyncStream(self._calls.open_stream(max_in_flight, max_requests_per_message, timeout, *trace_of(trace)),
                           asyncio.get_running_loop())

    async def server_info(self) -> Dict[str, Any]:
        """As Client.server_info."""
        return await asyncio.get_running_loop().run_in_executor(None, self._calls.server_info)

    async def wait_for_connection(self, timeout: float = 10.0) -> None:
        """As Client.wait_for_connection."""
        await asyncio.get_running_loop().run_in_executor(None, self._calls.wait_for_connection, timeout)

    def stats(self) -> Dict[str, Any]:
        """As Client.stats."""
        return self._calls.stats()

    async def close(self) -> None:
        """Ends running calls with CancelledError and waits for them. Any number of times."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._calls.close)
        if self._loop is loop:
            loop.remove_reader(self._calls.fd())
            while self._calls.deliver():
                pass
            self._loop = None

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()


class AsyncStream:
    """Made by AsyncClient.stream(). One task may send while another receives. An asynchronous context manager.

    Nothing is sent again. When the stream breaks, every unanswered request has that error as its answer.
    """

    def __init__(self, native: StreamCalls, loop: asyncio.AbstractEventLoop) -> None:
        self._calls = native
        self._loop = loop
        self._next_id = 0
        self._answers: "asyncio.Queue[Tuple[int, Any]]" = asyncio.Queue()
        self._unread = 0
        self._room = asyncio.Event()
        loop.add_reader(native.fd(), self._deliver)

    def _deliver(self) -> None:
        for answer in self._calls.receive_all():
            self._answers.put_nowait(answer)
        self._room.set()

    async def send(self, x: Any, *, id: Optional[int] = None, log: bool = False, axis: int = -1,
                   scale: Optional[float] = None, dtype: Any = None, lengths: Any = None,
                   timeout: Optional[float] = None) -> int:
        """As Stream.send."""
        if id is None:
            id = self._next_id
        self._next_id = id + 1
        request = request_of(log, axis, scale, dtype, lengths, timeout)
        self._room.clear()
        while not self._calls.send(id, x, request, False):
            await self._room.wait()
            self._room.clear()
        self._unread += 1
        return id

    async def receive(self) -> Optional[Tuple[int, Any]]:
        """The next answer: (id, array), or (id, exception). None: every answer has been received."""
        if self._unread == 0:
            return None
        answer = await self._answers.get()
        self._unread -= 1
        return answer

    async def __aiter__(self) -> AsyncIterator[Tuple[int, Any]]:
        """Answers, until every request sent so far has one."""
        while True:
            answer = await self.receive()
            if answer is None:
                return
            yield answer

    async def finish(self) -> None:
        """As Stream.finish."""
        await self._loop.run_in_executor(None, self._calls.finish)

    def cancel(self) -> None:
        """As Stream.cancel."""
        self._calls.cancel()

    async def close(self) -> None:
        """As Stream.close."""
        self._loop.remove_reader(self._calls.fd())
        await self._loop.run_in_executor(None, self._calls.close)

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()
