"""Requests as the library takes them: where tensors and answers lie, and what is asked."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ._checks import limit, number, text, whole, boolean
from ._library import Request as _Request
from ._library import c
from .arrays import TYPES, to_fill, to_send
from .regions import numpy_type

NAMES = {wire: name for name, wire in TYPES.items()}
SIZES = {1: 4, 2: 2, 3: 2, 4: 8}
_BFLOAT16 = TYPES["bfloat16"]
_PLAIN = {np.dtype(name): wire for name, wire in TYPES.items() if wire != _BFLOAT16}
_NUMPY = {_BFLOAT16: np.dtype(np.uint16), **{wire: dtype for dtype, wire in _PLAIN.items()}}
_MAX_BYTES = 2**31 - 1  # gRPC counts a message's bytes in an int
_byte_at: Any = ctypes.c_char.from_buffer
_address_of = ctypes.addressof
_empty = np.empty

# Memory to send or to fill: its address, its type's number, its shape, whether it is on a device, and what holds it.
Place = Tuple[int, int, Tuple[int, ...], bool, Any]


def _place_of(ruled: Tuple[Any, ...]) -> Place:
    """Of what arrays.py made of an array."""
    if len(ruled) == 4:
        return ruled[0], ruled[2], ruled[1], True, ruled[3]
    array, wire = ruled
    return array.__array_interface__["data"][0], wire, array.shape, False, array


def _place_of_plain(x: Any) -> Optional[Place]:
    """Of a plain numpy array of float32, float16 or float64 that can be written, is row-major without gaps and not
    empty, by far the fastest way to an address. None: arrays.py has to judge."""
    if type(x) is np.ndarray:
        wire = _PLAIN.get(x.dtype)
        if wire is not None and 0 < x.ndim <= 8 and x.nbytes <= _MAX_BYTES:
            try:
                return _address_of(_byte_at(x)), wire, x.shape, False, x
            except (TypeError, ValueError, BufferError):
                pass
    return None


def input_of(name: str, x: Any) -> Place:
    """A tensor to send, without a copy if it is row-major without gaps and native."""
    return _place_of_plain(x) or _place_of(to_send(name, x))


def output_of(out: Any, wire: int, shape: Tuple[int, ...]) -> Place:
    place = _place_of_plain(out) or _place_of(to_fill("out", out))
    if place[1] != wire or place[2] != shape:
        raise ValueError(f"out: is {NAMES[place[1]]} {list(place[2])}, but the answer is {NAMES[wire]} {list(shape)}")
    return place


def new_answer(request: "Request", shape: Tuple[int, ...]) -> Tuple[Any, int]:
    """A new array for it, and its address."""
    wire = request.answer
    answer = _empty(shape, _NUMPY[wire])
    address = _address_of(_byte_at(answer)) if request.bytes else 0
    return (answer if wire != _BFLOAT16 else answer.view(numpy_type("bfloat16"))), address


def tensor_for(x: Any, wire: int, shape: Tuple[int, ...]) -> Any:
    """Where the answer to a tensor of torch goes: a new one on the CPU. None: x is no tensor of torch."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return None
    return torch.empty(shape, dtype=getattr(torch, NAMES[wire]), device="cpu")


class Request:
    """What a request is besides its memory. Never changed: threads share it."""

    def __init__(self, options: Tuple[Any, ...], wire: int, shape: Tuple[int, ...]) -> None:
        log, axis, scale, answer, lengths, timeout, traceparent, tracestate = options[:8]
        if not -(2**31) <= axis < 2**31:
            raise ValueError(f"axis: {whole('axis', axis)}, must be -rank to rank - 1")
        self.answer = answer or wire
        self.bytes = math.prod(shape) * SIZES[self.answer]
        self.axis = axis
        made = _Request(size=ctypes.sizeof(_Request), dtype=wire, rank=len(shape),
                        shape=(ctypes.c_int64 * len(shape))(*shape), operation=2 if log else 1, axis=axis,
                        has_scale=scale is not None, scale=0 if scale is None else number("scale", scale),
                        output_dtype=self.answer, timeout_ns=limit(timeout), traceparent=text("trace", traceparent),
                        tracestate=text("trace", tracestate))
        self._held = lengths, options[9:10]
        if lengths is not None:
            made.lengths, made.lengths_count = lengths.ctypes.data, lengths.size
        if len(options) > 8:
            top_k, indices, log_sum_exp, entropy = options[8:]
            made.top_k = whole("top_k", top_k)
            if made.top_k != top_k:
                raise ValueError(f"top_k: {top_k}, must be 0 (none) to the server's max_top_k")
            if indices is not None:
                made.indices, made.indices_count = indices.ctypes.data, indices.size
            made.log_sum_exp, made.entropy = boolean("log_sum_exp", log_sum_exp), boolean("entropy", entropy)
        self.made = made
        self.pointer = ctypes.byref(made)


_known: Dict[Any, Request] = {}


def request_for(options: Tuple[Any, ...], wire: int, shape: Tuple[int, ...]) -> Request:
    """Made once for each kind, and kept, but for those that are of one call only."""
    if options[4] is not None or options[6] or len(options) > 8:
        return Request(options, wire, shape)
    key = options, wire, shape
    try:
        return _known[key]
    except KeyError:
        made = Request(options, wire, shape)
    except TypeError:  # options that are no numbers
        return Request(options, wire, shape)
    if len(_known) >= 1024:
        _known.clear()
    _known[key] = made
    return made


class Summarized:
    """Memory for the parts of a summary, one after the other."""

    def __init__(self, request: Request, wire: int, shape: Tuple[int, ...]) -> None:
        self._offsets, self._sizes = (ctypes.c_uint64 * 6)(), (ctypes.c_uint64 * 6)()
        self._memory = np.empty(c.summary_layout(request.pointer, self._offsets, self._sizes) // 8, np.uint64)
        self.address = self._memory.ctypes.data
        number = np.float64 if wire == 4 else np.float32
        has_value = self._sizes[0] or self._sizes[2]
        value = numpy_type(NAMES[request.answer]) if has_value else None
        self._types = (value, np.int32, value, number, number, number)
        axis = request.axis % len(shape)
        self._shape = shape[:axis] + shape[axis + 1:]

    def parts(self) -> Tuple[Any, ...]:
        """(top_values, top_indices, values_at, log_sum_exp, maximum, entropy). None: it has none."""
        parts: List[Any] = []
        for i, (offset, size, dtype) in enumerate(zip(self._offsets, self._sizes, self._types)):
            part = None
            if size:
                part = self._memory.view(np.uint8)[offset:offset + size].view(dtype)
                part = part.reshape(self._shape + ((-1,) if i < 3 else ()))
            parts.append(part)
        return tuple(parts)
