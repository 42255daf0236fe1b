"""Calls of the library: what softmax_client.Client and AsyncClient are over."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import math
import sys
import types
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ._checks import boolean, nanoseconds, number, patience, text, whole
from ._library import ANY_DEVICE, HOST, TOKEN, ClientOptions, c
from ._requests import (SIZES, Place, Request, Summarized, input_of, new_answer, output_of, request_for,
                        tensor_for)
from ._running import blocking, checked, exception_of, forbid_after_fork, forked, mark_used
from ._streams import Queue, StreamCalls, stream_options
from .errors import SoftmaxError
from .regions import Region


class Calls:
    """A client of the library. Thread-safe; but start() and deliver() are for one thread."""

    def __init__(self, target: Any, *, token: Any, tls: Any, retry: Any, **values: Any) -> None:
        self.handle = ctypes.c_void_p()
        forbid_after_fork()
        milliseconds = {f"{name}_ms": round(nanoseconds(name, values[name]) / 1e6)
                        for name in ("keepalive_time", "keepalive_timeout")}
        most = values["max_receive_bytes"]
        options = ClientOptions(
            size=ctypes.sizeof(ClientOptions), target=text("target", target),
            deadline_ns=nanoseconds("deadline", values["deadline"]),
            max_receive_bytes=-1 if most is None else whole("max_receive_bytes", most),
            connections=whole("connections", values["connections"], 32),
            **{name: boolean(name, values[name]) for name in ("wait_for_ready", "health_checks", "regions")},
            **{name: text(name, values[name]) for name in ("authority", "regions_socket")}, **milliseconds,
            max_attempts=whole("retry.max_attempts", retry.max_attempts, 32),
            **{f"{name}_ms": round(nanoseconds(f"retry.{name}", getattr(retry, name)) / 1e6)
               for name in ("initial_backoff", "max_backoff")},
            **{name: number(f"retry.{name}", getattr(retry, name))
               for name in ("multiplier", "max_tokens", "token_ratio")})
        if tls is not None:
            options.use_tls = 1
            for name in ("root_certificates", "certificate_chain", "private_key"):
                setattr(options, name, text(name, getattr(tls, name), "the text of a PEM file"))
        if token is not None:
            self._token = options.token = _token_from(token)
        self._closed = False
        self._streams: "weakref.WeakSet[StreamCalls]" = weakref.WeakSet()
        self._queue = Queue()
        self._error = ctypes.c_void_p()  # of start()
        self._error_place = ctypes.byref(self._error)
        self._tags = itertools.count()
        self._started: Dict[int, Tuple[Any, ...]] = {}  # by tag: what is kept until its answer is taken
        mark_used()
        try:
            checked(c.client_new, ctypes.byref(options), ctypes.byref(self.handle))
        except SoftmaxError:
            self._queue.end()
            raise

    def _check_open(self) -> None:
        if self._closed or forked():
            forbid_after_fork()
            raise RuntimeError("the client is closed")

    def check_reachable(self, name: str, place: Place) -> None:
        """TypeError: it is on a device, and not in a region of this client, so that nobody could read it."""
        if place[3]:
            size = math.prod(place[2]) * SIZES[place[1]]
            if size and not c.in_region(self.handle, place[0], size):
                raise TypeError(f"{name}: is on a device, and not in memory of this client's allocate()")

    def _answer_for(self, request: Request, x: Any, out: Any, shape: Tuple[int, ...]) -> Tuple[Any, int]:
        """An array, a tensor of torch for one, or `out`; and its address."""
        answer = out
        if out is None and type(x) is not np.ndarray:
            answer = tensor_for(x, request.answer, shape)
        if answer is None:
            return new_answer(request, shape)
        output = output_of(answer, request.answer, shape)
        self.check_reachable("out", output)
        return answer, output[0]

    def _begin(self, x: Any, options: Tuple[Any, ...]) -> Tuple[Place, Request]:
        self._check_open()
        place = input_of("x", x)
        self.check_reachable("x", place)
        return place, request_for(options, place[1], place[2])

    def softmax(self, x: Any, out: Any, options: Tuple[Any, ...]) -> Any:
        (address, _, shape, _, _), request = self._begin(x, options)
        answer, to = self._answer_for(request, x, out, shape)
        blocking(c.run, self.handle, request.pointer, address, to)
        return answer

    def summarize(self, x: Any, options: Tuple[Any, ...]) -> Tuple[Any, ...]:
        (address, wire, shape, _, _), request = self._begin(x, options)
        summary = Summarized(request, wire, shape)
        blocking(c.run, self.handle, request.pointer, address, summary.address)
        return summary.parts()

    def softmax_batch(self, xs: List[Any], options: Tuple[Any, ...], max_in_flight: Any,
                      return_exceptions: bool) -> List[Any]:
        """Of xs, in their order: arrays, and exceptions; unless return_exceptions, an x that cannot be sent raises."""
        self._check_open()
        stream = stream_options(max_in_flight, 64, *options[5:8])
        options = (*options[:5], None, "", "")
        results: List[Any] = []
        items: List[Tuple[int, Place, Request, int]] = []
        for i, x in enumerate(xs):
            try:
                place = input_of(f"xs[{i}]", x)
                self.check_reachable(f"xs[{i}]", place)
            except Exception as refusal:
                if not return_exceptions:
                    raise
                results.append(refusal)
                continue
            request = request_for(options, place[1], place[2])
            answer, to = new_answer(request, place[2])
            items.append((i, place, request, to))
            results.append(answer)
        pointers = ctypes.c_void_p * len(items)
        errors = pointers()
        blocking(c.run_batch, self.handle, ctypes.byref(stream),
                 pointers(*(ctypes.addressof(request.made) for _, _, request, _ in items)),
                 pointers(*(place[0] for _, place, _, _ in items)), pointers(*(to for *_, to in items)), len(items),
                 errors)
        for (i, *_), error in zip(items, errors):
            if error:
                results[i] = exception_of(ctypes.c_void_p(error))
        return results

    def start(self, x: Any, out: Any, options: Tuple[Any, ...], future: Any) -> int:
        """Its answer comes to that future by deliver(). The result is for cancel()."""
        place, request = self._begin(x, options)
        address, wire, shape, _, _ = place
        finish: Optional[Callable[[], Any]] = None
        if len(options) > 8:
            answer = Summarized(request, wire, shape)
            to, finish = answer.address, answer.parts
        else:
            answer, to = self._answer_for(request, x, out, shape)
            # Elsewhere the answer is put when it is taken in, and not when nobody wants it any more.
            if out is not None and not c.in_region(self.handle, to, request.bytes):
                kept = np.empty(request.bytes, np.uint8)
                finish = functools.partial(_put, out, to, kept)
                to = kept.ctypes.data
        tag = next(self._tags)
        self._started[tag] = future, answer, finish, place, request
        if c.start(self.handle, request.pointer, address, to, self._queue.handle, tag, self._error_place):
            del self._started[tag]
            raise exception_of(self._error)
        return tag

    def cancel(self, tag: int) -> None:
        c.cancel(self._queue.handle, tag)

    def deliver(self) -> bool:
        """Gives futures the answers that have come. False: none has."""
        tag = None
        for tag, error in self._queue.take_ready():
            future, answer, finish, _, _ = self._started.pop(tag)
            if error:
                failed = exception_of(ctypes.c_void_p(error))
                if not future.done():
                    future.set_exception(failed)
            elif not future.done():
                future.set_result(answer if finish is None else finish())
        return tag is not None

    def fd(self) -> int:
        return self._queue.fd

    def open_stream(self, *options: Any) -> StreamCalls:
        """`options`: those of stream_options()."""
        self._check_open()
        stream = StreamCalls(self, stream_options(*options))
        self._streams.add(stream)
        return stream

    def allocate(self, size: int, on_device: bool, device: Any) -> Region:
        self._check_open()
        number = HOST if not on_device else ANY_DEVICE if device is None else whole("device", device)
        handle = ctypes.c_void_p()
        checked(c.region_allocate, self.handle, size, number, ctypes.byref(handle))
        return Region(handle)

    def server_info(self) -> Dict[str, Any]:
        return self._told(c.server_info)

    def stats(self) -> Dict[str, Any]:
        return self._told(c.stats)

    def _told(self, function: Any) -> Dict[str, Any]:
        self._check_open()
        told = ctypes.c_void_p()
        checked(function, self.handle, ctypes.byref(told))
        try:
            return dict(json.loads(ctypes.string_at(told.value or 0)))
        finally:
            c.free(told)

    def wait_for_connection(self, timeout: Any) -> None:
        self._check_open()
        blocking(c.wait_for_connection, self.handle, patience(timeout))

    def close(self) -> None:
        """Cancels what runs and waits for its end; no more calls. Any number of times."""
        if forked():
            return
        for stream in list(self._streams):
            stream.close()
        self._closed = True
        c.client_close(self.handle)

    def __del__(self, free: Any = c.client_free, in_child: Any = forked) -> None:
        if not in_child() and self.handle:  # else its threads are in the parent, and do not end here
            free(self.handle)
            self._queue.end()


def _put(out: Any, to: int, answer: Any) -> Any:
    ctypes.memmove(to, answer.ctypes.data, answer.nbytes)
    return out


def _token_from(function: Any) -> Any:
    """For threads of gRPC and of calls. What cannot be a token is refused by the library."""
    def answer(_: Any, place: int, room: int) -> int:
        try:
            token = function()
            if not isinstance(token, str):
                raise TypeError("must return a str")
            data = token.encode()
            if len(data) > room:
                raise ValueError(f"has {len(data)} bytes, must be at most {room}")
        except Exception as error:
            told: Any = types.SimpleNamespace(
                exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__,
                err_msg="softmax_client: the function for tokens", object=function)
            sys.unraisablehook(told)
            return -1
        ctypes.memmove(place, data, len(data))
        return len(data)

    return TOKEN(answer)
