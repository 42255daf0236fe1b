"""What is right, by the usual bound of docs/numerics.md: references in double (for float64 in long double)."""
import ctypes
import math

import numpy as np

from softmax_client import _requests


def to_bfloat16(values):
    """The bits of float32 values as bfloat16, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def softmax(x, axis, log, scale=1.0):
    """(result, distance from the maximum) in more precision than x has; NaN where a row has NaN, inf or only -inf."""
    wide = x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
    if wide.size == 0:
        return wide, wide
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = (wide.max(axis=axis, keepdims=True) - wide) * scale
        exponentials = np.exp(-distance)
        total = exponentials.sum(axis=axis, keepdims=True)
        return (-distance - np.log(total) if log else exponentials / total), distance


_MANTISSA = {"float32": 23, "float64": 52, "float16": 10, "bfloat16": 7}
_SMALLEST = {"float32": 2.0**-149, "float64": 2.0**-1074, "float16": 2.0**-24, "bfloat16": 2.0**-133}


def _ulp(value, dtype):
    exponent = np.frexp(np.abs(value).astype(np.longdouble))[1] - 1
    return np.maximum(np.ldexp(np.longdouble(1), exponent - _MANTISSA[dtype]), _SMALLEST[dtype])


def check(answer, x, dtype, axis, log, scale=1.0):
    """answer and x are numpy arrays; dtype names the answer's type (bfloat16's values come as float32)."""
    expected, distance = softmax(x, axis, log, scale)
    assert answer.shape == x.shape
    assert np.array_equal(np.isnan(answer), np.isnan(expected))
    good = np.isfinite(expected)
    assert np.array_equal(answer[~good & ~np.isnan(expected)], expected[~good & ~np.isnan(expected)])
    answer, expected, distance = answer[good].astype(np.longdouble), expected[good], distance[good]
    computed = "float64" if dtype == "float64" and x.dtype == np.float64 else "float32"
    if log:
        length = max(x.shape[axis], 1)
        bound = 2 * _ulp(np.maximum(np.maximum(distance, np.log(length)), 1), computed)
    else:
        bound = (6 + 1.5 * distance) * _ulp(expected, computed) + (2.3e-308 if computed == "float64" else 1.2e-38)
    if dtype in ("float16", "bfloat16"):
        bound = bound + _ulp(expected, dtype) / 2 * 1.0000001
        limit = 65504 if dtype == "float16" else 3.3e38
        assert (np.abs(expected) < limit).all()
    wrong = np.abs(answer - expected) > bound
    assert not wrong.any(), (answer[wrong][:3], expected[wrong][:3], bound[wrong][:3])


class _DlpackTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_exported = {}  # by the address of a tensor: what lives until its deleter is called


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address):
    _exported.pop(address)[0].deleted += 1


class Dlpack:
    """As torch's tensors are: no buffer protocol, only DLPack. Over the memory of a numpy array; `fields` say otherwise
    than it does."""

    CODES = {"f": 2, "u": 4, "i": 0}  # uint16 stands for bfloat16's bits

    def __init__(self, array, device=1, **fields):
        self.array, self.device, self.fields, self.deleted = array, device, fields, 0

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self):
        array = self.array
        dimensions = self.fields.get("shape", array.shape)
        numbers = ctypes.c_int64 * max(len(dimensions), 1)
        shape = numbers(*dimensions)
        strides = numbers(*self.fields.get("strides", (stride // array.itemsize for stride in array.strides)))

        tensor = _DlpackTensor(
            self.fields.get("data", array.ctypes.data), self.device, 0, len(dimensions),
            self.fields.get("code", self.CODES[array.dtype.kind]), self.fields.get("bits", array.itemsize * 8),
            self.fields.get("lanes", 1), shape, strides, 0, None, ctypes.cast(_delete, ctypes.c_void_p))
        _exported[ctypes.addressof(tensor)] = (self, tensor, shape, strides)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(tensor), b"dltensor", None)


def sent_of(x):
    """Where what is sent of it lies, and its bytes."""
    address, wire, shape, _, _ = _requests.input_of("x", x)
    return address, ctypes.string_at(address, math.prod(shape) * _requests.SIZES[wire])
