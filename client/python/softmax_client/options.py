"""What callers choose: for a client, and for one request."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import numpy as np

from ._checks import boolean, whole
from .arrays import TYPES, whole_numbers

_TYPES: Dict[Any, int] = {**TYPES, None: 0}

# (log, axis, scale, output type or 0, lengths, timeout, traceparent, tracestate), as _requests.py takes them.
RequestOptions = Tuple[bool, int, Optional[float], int, Any, Optional[float], str, str]

# A carrier with a traceparent and perhaps a tracestate, or a traceparent alone.
Trace = Union[None, str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True)
class Retry:
    """When a failed attempt is made again; never past the call's deadline. Times are in seconds.

    Tried again are UNAVAILABLE, and RESOURCE_EXHAUSTED where the server says when to come back. Before attempt n + 1
    lies the time that the server asked for, or a random one of up to initial_backoff * multiplier ** (n - 1), at most
    max_backoff. All calls of a client share a budget: a failed attempt takes 1 of max_tokens, a good call returns
    token_ratio, and below half of it nothing is retried.
    """

    max_attempts: int = 5  # the first included; 1: no retries
    initial_backoff: float = 0.01
    max_backoff: float = 1.0
    multiplier: float = 2.0
    max_tokens: float = 1000.0
    token_ratio: float = 0.1


@dataclasses.dataclass(frozen=True)
class Tls:
    """Keys and certificates, as PEM text. Empty root_certificates: those that this machine trusts.

    certificate_chain and private_key are for servers that ask their clients who they are (mTLS): both or neither.
    """

    root_certificates: str = ""
    certificate_chain: str = ""
    private_key: str = dataclasses.field(default="", repr=False)

    @classmethod
    def from_files(cls, root_certificates: Optional[str] = None, certificate_chain: Optional[str] = None,
                   private_key: Optional[str] = None) -> "Tls":
        """The same, read from these files."""
        return cls(*(pathlib.Path(path).read_text(encoding="ascii") if path else ""
                     for path in (root_certificates, certificate_chain, private_key)))


def type_number(dtype: Any) -> int:
    """The wire's number of an element type: a name, or a type of numpy, ml_dtypes or torch. None: the input's."""
    try:
        return _TYPES[dtype]
    except (KeyError, TypeError):
        pass
    name = str(dtype)
    with contextlib.suppress(TypeError):
        name = name[6:] if name.startswith("torch.") else np.dtype(dtype).name
    if name not in _TYPES:
        raise TypeError(f"dtype: {name}; float32, float16, bfloat16 and float64 can be had")
    return _TYPES[name]


@dataclasses.dataclass(frozen=True)
class Summary:
    """What was asked of each row. Arrays have the input's shape without the axis; the first three have k or the number
    of indices behind it. None: not asked for, or the input is empty.

    Rows with a NaN or an inf, or with nothing but -inf, have NaN as their values and -1 as their indices; the rest of
    docs/answers.md's table of edge rows holds as well.
    """

    top_values: Any = None  # the k most probable elements, largest first
    top_indices: Any = None  # int32; equal inputs by the smallest
    values_at: Any = None
    log_sum_exp: Any = None  # float32, or float64 of float64
    maximum: Any = None  # of the scaled input
    entropy: Any = None  # in nats


def request_of(log: bool, axis: int, scale: Optional[float], dtype: Any, lengths: Any,
               timeout: Optional[float], trace: Trace = None) -> RequestOptions:
    """Checked as far as _requests.py does not."""
    kept = None if lengths is None else whole_numbers("lengths", lengths, 0, 0xFFFFFFFF, np.uint32)
    traceparent, tracestate = ("", "") if trace is None else trace_of(trace)
    return (log if type(log) is bool else boolean("log", log), axis if type(axis) is int else whole("axis", axis),
            scale, type_number(dtype), kept, timeout, traceparent, tracestate)


def trace_of(trace: Trace) -> Tuple[str, str]:
    """Its traceparent and its tracestate; both empty: the call is in no trace."""
    if trace is None or isinstance(trace, str):
        return (trace or "", "")
    if not isinstance(trace, Mapping):
        raise TypeError(f"trace: is a {type(trace).__name__}, must be a traceparent or a mapping that has one")
    return (trace.get("traceparent", ""), trace.get("tracestate", ""))


def summary_request_of(request: RequestOptions, top_k: int, indices: Any, log_sum_exp: bool,
                       entropy: bool) -> Tuple[Any, ...]:
    """The same with what is wanted of each row."""
    if not (top_k or log_sum_exp or entropy) and indices is None:
        raise ValueError("asks for nothing: give top_k, indices, log_sum_exp or entropy")
    at = None if indices is None else whole_numbers("indices", indices, -1, 0x7FFFFFFF, np.int32)
    return (*request, top_k, at, log_sum_exp, entropy)
