"""The synchronous client and its streams."""

from __future__ import annotations

import atexit
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from ._calls import Calls
from ._streams import StreamCalls
from .errors import SoftmaxError
from .arrays import TYPES
from .options import Retry, Summary, Tls, Trace, request_of, summary_request_of, trace_of, type_number
from .regions import allocate

Token = Union[None, str, Callable[[], str]]

_NAMES = {number: name for name, number in TYPES.items()}
_open: "weakref.WeakSet[NativeOwner]" = weakref.WeakSet()


class NativeOwner:
    """What Client and AsyncClient share: their options, and their end."""

    def __init__(self, target: str = "localhost:50051", *, deadline: float = 10.0, connections: int = 1,
                 retry: Retry = Retry(), wait_for_ready: bool = False, health_checks: bool = True,
                 tls: Union[None, bool, Tls] = None, token: Token = None, authority: str = "",
                 max_receive_bytes: Optional[int] = None, keepalive_time: float = 60.0,
                 keepalive_timeout: float = 20.0, regions: bool = False, regions_socket: str = "") -> None:
        """Checks the options; connects at the first call.

        target: one server or several, which then share the load: host:port, dns:///host:port (every address of the
            name), ipv4:a:1,b:2, ipv6:[a]:1, unix:/path, or a list of such with commas between.
        deadline: seconds, above 0, for a call that brings no timeout; retries are within it.
        connections: to each address. One keeps about one core busy.
        wait_for_ready: a call that finds no server is tried until its deadline.
        health_checks: of several servers, those that do not report SERVING get no calls.
        tls: None: plain text; True: TLS with the authorities that this machine trusts; or Tls(...).
        token: sent as `authorization: Bearer ...`; a function is asked before every attempt, from any thread. Needs TLS
            or a unix socket.
        authority: the name that the server's certificate must have, instead of the target's host.
        max_receive_bytes: larger answers are refused. None: whatever the server may send.
        regions: arrays from 64 KiB on go through memory that a server of this machine shares, if it does.
        regions_socket: the server's --regions-socket as this process sees it. "": where the server says.
        keepalive_time, keepalive_timeout: seconds of silence before a probe (0: none), and to wait for its reply.
        """
        self._calls = Calls(
            target, deadline=deadline, connections=connections, retry=retry, wait_for_ready=wait_for_ready,
            health_checks=health_checks, tls=Tls() if tls is True else tls or None,
            token=(lambda: token) if isinstance(token, str) else token, authority=authority,
            max_receive_bytes=max_receive_bytes, keepalive_time=keepalive_time, keepalive_timeout=keepalive_timeout,
            regions=regions, regions_socket=regions_socket)
        _open.add(self)

    def allocate(self, shape: Any, dtype: Any = "float32", *, memory: str = "host",
                 device: Optional[int] = None) -> Any:
        """An array in memory that a server of this machine shares (--regions-socket).

        memory: "host": a numpy array; "device": a DeviceArray in memory of the server's GPU `device` (a number in
            server_info()'s devices; None: the one with most room), for torch and cupy by DLPack.

        It, views of it and tensors over it do not travel as x, xs or out of this client's calls (out= of softmax):
        the server reads and writes them where they are. The memory goes back when the last of them has gone. When the
        server ends, calls with them raise SoftmaxError with NOT_FOUND; allocate anew. After a call that failed
        otherwise than by a refusal the server may still write to its out; see C++'s SoftmaxOptions::output.
        """
        return allocate(self._calls, shape, _NAMES[type_number(dtype) or TYPES["float32"]], memory, device)


@atexit.register
def _close_all() -> None:
    """While there still is an interpreter for threads to come back to."""
    for owner in list(_open):
        owner._calls.close()


class Client(NativeOwner):
    """Connections to a softmax server, or to several that do the same.

    Thread-safe: share one among all threads. Calls run without the GIL. A context manager; when it closes, running
    calls end with CancelledError. Not usable in a forked process when its parent had used the package before.

        with softmax_client.Client("localhost:50051") as client:
            y = client.softmax(np.random.randn(4, 1000).astype(np.float32))

    Arrays are numpy's, torch's tensors on the CPU, and whatever else has the buffer protocol, __array_interface__ or
    DLPack, with elements of float32, float16, bfloat16 (torch, ml_dtypes) or float64, and 1 to 8 dimensions. They are
    sent from where they lie when they are row-major without gaps, and copied first when they are not. Do not change
    them meanwhile. Lists of numbers are sent as float32, rounded; lists of arrays are put together and keep their type.

    Refused with a TypeError or ValueError that names the argument is what would lose something on the way: masked
    arrays and other subclasses of numpy's, objects of pandas, tensors with a gradient, other element types, and in
    lists numbers beyond float32 and whole numbers with more digits than it has. The same holds for `out`.
    """

    def softmax(self, x: Any, *, axis: int = -1, scale: Optional[float] = None, dtype: Any = None, lengths: Any = None,
                out: Any = None, timeout: Optional[float] = None, trace: Trace = None) -> Any:
        """softmax(scale * x) along `axis`, of x's shape and type.

        x: an array of rank 1 to 8; see the class.
        axis: negative counts from the end.
        scale: finite and above 0.
        dtype: of the answer, instead of x's: "float32", np.float16, torch.bfloat16, ...
        lengths: one whole number for each row, as an array or a list: elements from there on count as masked, and
            their answer is 0.
        out: an array of the answer's shape and type, row-major and writable; it is returned. x itself may be it.
            Unchanged when the call fails.
        timeout: seconds, above 0, instead of the client's deadline.
        trace: the caller's place in a trace, which the server's spans are put below: the carrier that OpenTelemetry's
            propagate.inject() fills, or a traceparent.

        Returns a new numpy array (a tensor, if x is a tensor of torch), or `out`.
        Raises SoftmaxError; TypeError and ValueError for what is no such array.
        """
        return self._calls.softmax(x, out, request_of(False, axis, scale, dtype, lengths, timeout, trace))

    def log_softmax(self, x: Any, *, axis: int = -1, scale: Optional[float] = None, dtype: Any = None,
                    lengths: Any = None, out: Any = None, timeout: Optional[float] = None,
                    trace: Trace = None) -> Any:
        """log(softmax(scale * x)) along `axis`; masked elements are -inf. Everything else is as in softmax()."""
        return self._calls.softmax(x, out, request_of(True, axis, scale, dtype, lengths, timeout, trace))

    def summarize(self, x: Any, *, top_k: int = 0, indices: Any = None, log_sum_exp: bool = False,
                  entropy: bool = False, log: bool = False, axis: int = -1, scale: Optional[float] = None,
                  dtype: Any = None, lengths: Any = None, timeout: Optional[float] = None,
                  trace: Trace = None) -> Summary:
        """Only what is asked of each row along `axis`, instead of the whole answer: a Summary.

        top_k: how many of the most probable elements, values and indices; at most the server's max_top_k.
        indices: the values at these, as many for each row, row after row; -1: none. For the log-probability of one
            label a row: log=True, indices=labels.
        log_sum_exp: the logarithm of the sum of exponentials, and the maximum.
        log: values are of log_softmax(). Values have the bits that the whole answer has.

        Everything else is as in softmax().
        """
        request = request_of(log, axis, scale, dtype, lengths, timeout, trace)
        return Summary(*self._calls.summarize(x, summary_request_of(request, top_k, indices, log_sum_exp, entropy)))

    def softmax_batch(self, xs: Iterable[Any], *, log: bool = False, axis: int = -1, scale: Optional[float] = None,
                      dtype: Any = None, timeout: Optional[float] = None, max_in_flight: int = 256,
                      return_exceptions: bool = False, trace: Trace = None) -> List[Any]:
        """The softmax (log: log-softmax) of many arrays over one stream, in their order, as numpy arrays.

        Arrays that the server was too busy for, or that a broken stream left, are sent again. The options are those of
        every array; `timeout` and `trace` are of all together.

        Raises the first error, unless return_exceptions: then it stands in its array's place, also that of an array
        which cannot be sent. Without return_exceptions such an array is found before anything is sent.
        """
        try:
            arrays = iter(xs)
        except TypeError:
            raise TypeError(f"xs: is a {type(xs).__name__}, must be arrays to iterate over") from None
        answers = self._calls.softmax_batch(list(arrays), request_of(log, axis, scale, dtype, None, timeout, trace),
                                             max_in_flight, return_exceptions)
        for answer in answers:
            if isinstance(answer, Exception) and not return_exceptions:
                raise answer
        return answers

    def stream(self, *, max_in_flight: int = 256, max_requests_per_message: int = 64,
               timeout: Optional[float] = None, trace: Trace = None) -> "Stream":
        """Many requests over one connection, answered in any order.

        max_in_flight: how many requests may be unanswered; at most the server's max_in_flight_per_stream.
        max_requests_per_message: requests that wait while a message is being written share the next one.
        timeout: seconds for the whole stream, above 0; None: for ever.
        trace: as in softmax(), for all of its requests.
        """
        return Stream(self._calls.open_stream(max_in_flight, max_requests_per_message, timeout, *trace_of(trace)))

    def server_info(self) -> Dict[str, Any]:
        """What the server tells of itself: version, backend, devices, dtypes, operations and its limits."""
        return self._calls.server_info()

    def wait_for_connection(self, timeout: float = 10.0) -> None:
        """Connects if need be. UnavailableError: there is no connection after `timeout` seconds; 0: does not wait."""
        self._calls.wait_for_connection(timeout)

    def stats(self) -> Dict[str, Any]:
        """What this client has done: calls, attempts, retries, and both by status code."""
        return self._calls.stats()

    def close(self) -> None:
        """Ends running calls with CancelledError and waits for them. Any number of times."""
        self._calls.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


class Stream:
    """Made by Client.stream(). Thread-safe: one thread may send while another receives. A context manager.

    Nothing is sent again. When the stream breaks, every unanswered request has that error as its answer.
    """

    def __init__(self, native: StreamCalls) -> None:
        self._calls = native
        self._next_id = 0

    def send(self, x: Any, *, id: Optional[int] = None, log: bool = False, axis: int = -1,
             scale: Optional[float] = None, dtype: Any = None, lengths: Any = None,
             timeout: Optional[float] = None) -> int:
        """Sends a request and returns its id: `id`, or one more than the last. Options are those of Client.softmax.

        Waits while max_in_flight requests are unanswered. x must stay as it is until its answer has come.
        """
        if id is None:
            id = self._next_id
        self._next_id = id + 1
        self._calls.send(id, x, request_of(log, axis, scale, dtype, lengths, timeout), True)
        return id

    def receive(self, timeout: Optional[float] = None) -> Optional[Tuple[int, Any]]:
        """The next answer: (id, array), or (id, exception) of a request that failed.

        None: every answer has been received, or none came within `timeout` seconds; 0: does not wait.
        """
        return self._calls.receive(timeout)

    def __iter__(self) -> Iterator[Tuple[int, Any]]:
        """Answers, until every request sent so far has one."""
        while True:
            answer = self._calls.receive(None)
            if answer is None:
                return
            yield answer

    def finish(self) -> None:
        """No more requests; waits until all are answered. Their answers can still be received.

        Raises what the stream came to, if it broke.
        """
        self._calls.finish()

    def cancel(self) -> None:
        """Ends the stream: what is unanswered gets CancelledError as its answer."""
        self._calls.cancel()

    def close(self) -> None:
        """Ends the stream and drops what was not received. Any number of times."""
        self._calls.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


__all__ = ["Client", "SoftmaxError", "Stream"]
