"""How calls into the library live beside Python: its signals, its forks, and errors."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Generator, List, Optional

from ._library import HOOK, c
from .errors import SoftmaxError, error_of

SLICE = 50_000_000  # nanoseconds that Ctrl-C may have to wait

_MAIN = threading.main_thread().ident
_get_ident = threading.get_ident
_used = _forked = False


def mark_used() -> None:
    """From now on a fork makes the library useless in the child, where its threads are not."""
    global _used
    forbid_after_fork()
    _used = True


def _after_fork() -> None:
    global _forked
    _forked = _forked or _used


os.register_at_fork(after_in_child=_after_fork)


def forked() -> bool:
    return _forked


def forbid_after_fork() -> None:
    if _forked:
        raise RuntimeError(
            "this process was forked after its parent had used softmax_client, whose threads a fork does not copy; "
            "make clients after the fork only, or start processes with multiprocessing's method 'spawn'")


class _Watch:
    """Lets Python run its handlers of signals on the main thread while that waits in the library.

    The library asks `hook` 20 times a second. It goes into a generator that waits inside its `try`, so that what a
    handler raises is caught wherever in here the interpreter calls it.
    """

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None
        self.error = ctypes.c_void_p()
        self.error_place = ctypes.byref(self.error)
        generator = self._run()
        next(generator)
        self._hook = HOOK(generator.send)
        self.hook = ctypes.cast(self._hook, ctypes.c_void_p).value

    def _run(self) -> Generator[int, Any, None]:
        while True:
            try:
                while True:
                    yield int(self.raised is not None)
            except GeneratorExit:
                return
            except BaseException as error:
                self.raised = error


def on_main_thread() -> bool:
    """Where handlers of signals run, and may raise between any two steps."""
    return _get_ident() == _MAIN


_idle: List[_Watch] = []  # of the main thread: a handler may make calls while another waits


def blocking(function: Any, *arguments: Any) -> None:
    """Calls it with a hook for signals and a place for an error, which it raises."""
    if _get_ident() != _MAIN:
        checked(function, *arguments, None, None)
        return
    watch = _idle.pop() if _idle else _Watch()
    code = function(*arguments, watch.hook, None, watch.error_place)
    failed = exception_of(watch.error) if code else None
    raised, watch.raised = watch.raised, None
    _idle.append(watch)
    if raised is not None:
        raise raised
    if failed is not None:
        raise failed


def checked(function: Any, *arguments: Any) -> None:
    """Calls it with a place for an error, which it raises."""
    error = ctypes.c_void_p()
    if function(*arguments, ctypes.byref(error)):
        raise exception_of(error)


def exception_of(error: Any) -> SoftmaxError:
    """Frees the library's."""
    retry_after = c.error_retry_after_ms(error)
    made = error_of(c.error_code(error), c.error_message(error).decode(errors="replace"),
                    None if retry_after < 0 else retry_after / 1000)
    c.error_free(error)
    return made
