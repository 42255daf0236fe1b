"""libsoftmax_client.so as ctypes sees it: client/c/softmax.h has the words."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import sys
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Tuple

HOOK = ctypes.CFUNCTYPE(c_int32, c_void_p)
TOKEN = ctypes.CFUNCTYPE(c_int64, c_void_p, c_void_p, c_size_t)
NO_ROOM = -1
HOST, ANY_DEVICE = -1, -2


class ClientOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("target", c_char_p), ("deadline_ns", c_int64), ("max_receive_bytes", c_int64),
                ("connections", c_int32), ("wait_for_ready", c_int32), ("health_checks", c_int32),
                ("regions", c_int32), ("keepalive_time_ms", c_int64), ("keepalive_timeout_ms", c_int64),
                ("authority", c_char_p), ("regions_socket", c_char_p), ("token", TOKEN), ("token_context", c_void_p),
                ("use_tls", c_int32), ("root_certificates", c_char_p), ("certificate_chain", c_char_p),
                ("private_key", c_char_p), ("max_attempts", c_int32), ("initial_backoff_ms", c_int64),
                ("max_backoff_ms", c_int64), ("multiplier", c_double), ("max_tokens", c_double),
                ("token_ratio", c_double)]


class Request(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("dtype", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)),
                ("operation", c_int32), ("axis", c_int32), ("has_scale", c_int32), ("scale", c_double),
                ("output_dtype", c_int32), ("lengths", c_void_p), ("lengths_count", c_size_t),
                ("timeout_ns", c_int64), ("top_k", c_uint32), ("indices", c_void_p), ("indices_count", c_size_t),
                ("log_sum_exp", c_int32), ("entropy", c_int32), ("traceparent", c_char_p), ("tracestate", c_char_p)]


class StreamOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("max_in_flight", c_size_t), ("max_requests_per_message", c_size_t),
                ("timeout_ns", c_int64), ("traceparent", c_char_p), ("tracestate", c_char_p)]


# An event is three numbers: its tag, its error's address, and 1 if it is one.
EVENT = 3

_ERROR = POINTER(c_void_p)
_FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    "client_new": (c_int32, POINTER(ClientOptions), POINTER(c_void_p), _ERROR),
    "client_close": (None, c_void_p),
    "client_free": (None, c_void_p),
    "run": (c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, _ERROR),
    "run_batch": (c_int32, c_void_p, POINTER(StreamOptions), c_void_p, c_void_p, c_void_p, c_size_t, c_void_p,
                  c_void_p, c_void_p, _ERROR),
    "start": (c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, _ERROR),
    "cancel": (None, c_void_p, c_uint64),
    "queue_new": (c_void_p,),
    "queue_fd": (c_int32, c_void_p),
    "queue_take": (c_size_t, c_void_p, c_void_p, c_size_t, c_int64),
    "queue_free": (None, c_void_p),
    "stream_open": (c_int32, c_void_p, POINTER(StreamOptions), c_void_p, POINTER(c_void_p), _ERROR),
    "stream_send": (c_int32, c_void_p, c_uint64, c_void_p, c_void_p, c_void_p, c_int64, _ERROR),
    "stream_unanswered": (c_size_t, c_void_p),
    "stream_finish": (c_int32, c_void_p, c_void_p, c_void_p, _ERROR),
    "stream_cancel": (None, c_void_p),
    "stream_close": (None, c_void_p),
    "stream_free": (None, c_void_p),
    "summary_layout": (c_uint64, c_void_p, POINTER(c_uint64), POINTER(c_uint64)),
    "server_info": (c_int32, c_void_p, POINTER(c_void_p), _ERROR),
    "stats": (c_int32, c_void_p, POINTER(c_void_p), _ERROR),
    "wait_for_connection": (c_int32, c_void_p, c_int64, c_void_p, c_void_p, _ERROR),
    "region_allocate": (c_int32, c_void_p, c_uint64, c_int64, POINTER(c_void_p), _ERROR),
    "region_data": (c_void_p, c_void_p),
    "region_size": (c_uint64, c_void_p),
    "region_cuda_device": (c_int32, c_void_p),
    "region_write": (c_int32, c_void_p, c_uint64, c_void_p, c_uint64, _ERROR),
    "region_read": (c_int32, c_void_p, c_uint64, c_void_p, c_uint64, _ERROR),
    "region_free": (None, c_void_p),
    "in_region": (c_int32, c_void_p, c_void_p, c_uint64),
    "error_code": (c_int32, c_void_p),
    "error_message": (c_char_p, c_void_p),
    "error_retry_after_ms": (c_int64, c_void_p),
    "error_free": (None, c_void_p),
    "free": (None, c_void_p),
}


def _in_subinterpreter() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13 on, and before
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() != interpreters.get_main())
    return False


def _load() -> Any:
    """What it is to be called by is the main interpreter's thread state, with the lock held."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError("softmax_client needs Python's lock (GIL), which is off; start Python with PYTHON_GIL=1")
    if _in_subinterpreter():
        raise ImportError("softmax_client works in the main interpreter only, and this is a subinterpreter")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libsoftmax_client.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        libc = " ".join(platform.libc_ver()).strip() or "another C library than glibc"
        raise ImportError(
            f"softmax_client cannot load its library: {error}. The wheel needs Linux on x86-64 with glibc 2.36 or "
            f"newer and libstdc++ of GCC 12 or newer; this is {platform.system()} on {platform.machine()} with {libc}. "
            "In a clone of softmax-server, pip install client/python makes it for this machine") from error
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"softmax_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


c = _load()
