"""Queues of answers, and streams, whose answers come to them."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterable, List, Optional, Tuple

from ._checks import count, limit, patience, shown, text, whole
from ._library import EVENT, NO_ROOM, StreamOptions, c
from ._requests import input_of, new_answer, request_for
from ._running import SLICE, blocking, checked, exception_of, forbid_after_fork, forked, on_main_thread
from .errors import SoftmaxError

if TYPE_CHECKING:
    from ._calls import Calls


class Queue:
    """Where answers come. Event loops look at fd. It ends by its owner, for of a cycle either may be deleted first."""

    _ROOM = 64

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p(c.queue_new())
        if not self.handle:
            raise OSError("the system has no more file descriptors")
        self.fd: int = c.queue_fd(self.handle)
        self._events = (ctypes.c_uint64 * (EVENT * self._ROOM))()
        self._of_main = (ctypes.c_uint64 * EVENT)()

    def take_one(self, nanoseconds: int) -> Any:
        """An event (EVENT numbers, the last of them 0: none came), after waiting for it so long. Thread-safe. On the
        main thread it comes again until its last number is set to 0, for an interrupt may come between."""
        event = self._of_main if on_main_thread() else (ctypes.c_uint64 * EVENT)()
        if not event[2]:
            c.queue_take(self.handle, event, 1, nanoseconds)
        return event

    def forget(self, tag: int) -> None:
        """That one has been dealt with, though an interrupt came before its last number was 0."""
        if self._of_main[2] and self._of_main[0] == tag:
            self._of_main[2] = 0

    def take_ready(self) -> Iterable[Tuple[int, int]]:
        """(tag, error's address or 0) of what is there, at most 64. One thread only may call it."""
        taken = EVENT * c.queue_take(self.handle, self._events, self._ROOM, 0)
        return zip(self._events[0:taken:EVENT], self._events[1:taken:EVENT])

    def end(self, free: Any = c.queue_free) -> None:
        """For its owner's end: nothing may come any more."""
        free(self.handle)


def stream_options(max_in_flight: Any, max_requests_per_message: Any, timeout: Any, traceparent: Any,
                   tracestate: Any) -> StreamOptions:
    return StreamOptions(size=ctypes.sizeof(StreamOptions), max_in_flight=count("max_in_flight", max_in_flight),
                         max_requests_per_message=count("max_requests_per_message", max_requests_per_message),
                         timeout_ns=limit(timeout), traceparent=text("trace", traceparent),
                         tracestate=text("trace", tracestate))


class StreamCalls:
    """A stream with a queue of its own. Thread-safe. Client.stream() and AsyncClient.stream() are over it."""

    def __init__(self, owner: "Calls", options: StreamOptions) -> None:
        self._handle = ctypes.c_void_p()
        self._owner = owner
        self._closed = False
        self._queue = Queue()
        self._unreceived: Dict[int, Tuple[Any, ...]] = {}  # by id: where its answer comes, and what is kept till then
        try:
            checked(c.stream_open, owner.handle, ctypes.byref(options), self._queue.handle, ctypes.byref(self._handle))
        except SoftmaxError:
            self._queue.end()
            raise

    def _check_open(self) -> None:
        forbid_after_fork()
        if self._closed:
            raise RuntimeError("the client is closed")

    def send(self, id: Any, x: Any, options: Tuple[Any, ...], wait: bool) -> bool:
        """With `wait`, blocks while max_in_flight requests are unanswered; without, False says so: not sent."""
        self._check_open()
        try:
            tag = whole("id", id, 65)
        except TypeError:
            tag = -1
        if tag < 0:
            raise TypeError(f"id: {shown(id)}, must be a whole number from 0 to 2**64 - 1")
        place = input_of("x", x)
        self._owner.check_reachable("x", place)
        request = request_for(options, place[1], place[2])
        answer, to = new_answer(request, place[2])
        if tag not in self._unreceived:
            self._queue.forget(tag)
        codes: Deque[int] = deque((NO_ROOM,), 1)
        entry = answer, place, request, codes
        if self._unreceived.setdefault(tag, entry) is not entry:
            raise ValueError(f"id: {tag} is unanswered already")
        error = ctypes.c_void_p()
        arguments = (self._handle, tag, request.pointer, place[0], to, SLICE if wait else 0, ctypes.byref(error))
        try:
            while codes[0] == NO_ROOM:
                codes.extend(itertools.starmap(c.stream_send, (arguments,)))  # an interrupt comes before or behind it
                if not wait or self._closed:
                    break
        finally:
            if codes[0] != 0:
                self._unreceived.pop(tag, None)
        if codes[0] > 0:
            raise exception_of(error)
        return codes[0] == 0

    def receive(self, timeout: Any) -> Optional[Tuple[int, Any]]:
        """(id, array or exception). None: nothing came within that many seconds, or nothing is outstanding."""
        self._check_open()
        until = None if timeout is None else time.monotonic_ns() + patience(timeout)
        while True:
            left = SLICE if until is None else min(SLICE, max(until - time.monotonic_ns(), 0))
            all_answered = not c.stream_unanswered(self._handle)
            event = self._queue.take_one(0 if all_answered else left)
            if event[2]:
                tag, error, _ = event
                entry = self._unreceived.pop(tag, None)
                event[2] = 0
                if entry is not None:  # None: an interrupt came after it had been taken out
                    return tag, exception_of(ctypes.c_void_p(error)) if error else entry[0]
            elif all_answered or self._closed or (until is not None and time.monotonic_ns() >= until):
                return None

    def receive_all(self) -> List[Tuple[int, Any]]:
        """Of what is there. One thread only may call it."""
        self._check_open()
        results = []
        for tag, error in self._queue.take_ready():
            answer = self._unreceived.pop(tag)[0]
            results.append((tag, exception_of(ctypes.c_void_p(error)) if error else answer))
        return results

    def fd(self) -> int:
        return self._queue.fd

    def finish(self) -> None:
        self._check_open()
        blocking(c.stream_finish, self._handle)

    def cancel(self) -> None:
        self._check_open()
        c.stream_cancel(self._handle)

    def close(self) -> None:
        """Cancels, and waits until it has ended; no more calls. Any number of times."""
        if not forked():
            self._closed = True
            c.stream_close(self._handle)

    def __del__(self, free: Any = c.stream_free, in_child: Any = forked) -> None:
        if not in_child() and self._handle:
            free(self._handle)
            self._queue.end()
