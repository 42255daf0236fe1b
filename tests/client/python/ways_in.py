"""What may be x, in tables: what is taken, what is refused, and the ways in. For ways_in_test.py."""
import array
import asyncio
import collections
import ctypes
import datetime
import decimal
import fractions
import tempfile

import numpy as np

import softmax_client
from reference import Dlpack
from softmax_client import _dlpack

X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
WIDE = X.astype(np.float64)


class Quantity(np.ndarray):
    """An array with units."""


class Labelled:
    """As of pandas and xarray: an index beside the numbers, which __array__ drops."""

    def __array__(self, dtype=None, copy=None):
        return X


class Interface:
    def __init__(self, x, **more):
        self.x, self.__array_interface__ = x, {**x.__array_interface__, **more}


class Units(Interface):
    def __array_ufunc__(self, *unused, **also_unused):
        raise TypeError("has units")


class Raises(Dlpack):
    """As torch's tensors that cannot be exported."""

    def __init__(self, error):
        super().__init__(X)
        self.error = error

    def __dlpack__(self):
        raise self.error


class NoDevice(Raises):
    def __dlpack_device__(self):
        raise self.error


class NoCapsule(Dlpack):
    def __dlpack__(self):
        return "capsule"


class UsedCapsule(Dlpack):
    def __dlpack__(self):
        capsule = super().__dlpack__()
        _dlpack.memory_of(capsule)
        return capsule


class Number(float):
    pass


def in_lists(depth, x=1.0):
    for _ in range(depth):
        x = [x]
    return x


def endless_list():
    x = []
    x.append(x)
    return x


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x):
    return np.frombuffer(bytearray(b"\0" + x.tobytes()), np.uint8)[1:].view(x.dtype).reshape(x.shape)


def structured(x):
    return x.view([("a", np.float32), ("b", np.float32)])


def released():
    view = memoryview(X)
    view.release()
    return view


def mapped(x):
    with tempfile.NamedTemporaryFile() as file:
        memory = np.memmap(file, x.dtype, "w+", shape=x.shape)
    memory[...] = x
    return memory


NAN_BITS = np.array([[0x7FC12345, 0xFFC00001, 0x7F812345, 0x3F800000], [0] * 4], np.uint32).view(np.float32)
POINT = collections.namedtuple("Point", "x y")
HUGE = np.broadcast_to(np.float32(1), (2**20, 2**20))
OPTIONS = ("must be of float32, float16, bfloat16 or float64",)

# name: (makes x, the array that is sent).
TAKEN = {
    "float32": (lambda: X, X),
    "float64": (lambda: WIDE, WIDE),
    "float16": (lambda: X.astype(np.float16), X.astype(np.float16)),
    "read-only": (lambda: read_only(X), X),
    "big-endian": (lambda: X.astype(">f4"), X),
    "big-endian float64, read-only": (lambda: read_only(WIDE.astype(">f8")), WIDE),
    "transposed": (lambda: X.T, X.T.copy()),
    "column-major": (lambda: np.asfortranarray(X), X),
    "every other": (lambda: np.repeat(X, 2, 1)[:, ::2], X),
    "negative strides": (lambda: X[::-1, ::-1], X[::-1, ::-1].copy()),
    "broadcast": (lambda: np.broadcast_to(X[0], (5, 4)), np.stack([X[0]] * 5)),
    "unaligned": (lambda: unaligned(X), X),
    "NaNs with payloads": (lambda: NAN_BITS, NAN_BITS),
    "NaNs with payloads, with gaps": (lambda: np.repeat(NAN_BITS, 2, 1)[:, ::2], NAN_BITS),
    "NaNs with payloads, big-endian": (lambda: NAN_BITS.view(np.uint32).astype(">u4").view(">f4"), NAN_BITS),
    "infinities": (lambda: np.float32([[1, -np.inf], [-np.inf, -np.inf]]),
                   np.float32([[1, -np.inf], [-np.inf, -np.inf]])),
    "empty": (lambda: np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)),
    "empty rows": (lambda: np.zeros((4, 0), np.float64), np.zeros((4, 0), np.float64)),
    "empty with strides": (lambda: X[:, 4:].T[::-1], np.zeros((0, 3), np.float32)),
    "rank 8": (lambda: X.reshape(1, 1, 1, 1, 1, 1, 3, 4), X.reshape(1, 1, 1, 1, 1, 1, 3, 4)),
    "memmap": (lambda: mapped(X), X),
    "memoryview": (lambda: memoryview(X), X),
    "memoryview with gaps": (lambda: memoryview(X)[::2], X[::2].copy()),
    "memoryview cast": (lambda: memoryview(X.tobytes()).cast("f", (3, 4)), X),
    "memoryview big-endian": (lambda: memoryview(X.astype(">f4")), X),
    "array.array f": (lambda: array.array("f", X[0].tolist()), X[0].copy()),
    "array.array d": (lambda: array.array("d", WIDE[0].tolist()), WIDE[0].copy()),
    "ctypes": (lambda: (ctypes.c_float * 4)(*X[0].tolist()), X[0].copy()),
    "__array_interface__": (lambda: Interface(X), X),
    "__array_interface__ with strides": (lambda: Interface(X.T), X.T.copy()),
    "DLPack": (lambda: Dlpack(X), X),
    "DLPack with gaps": (lambda: Dlpack(X[:, ::2]), X[:, ::2].copy()),
    "DLPack with negative strides": (lambda: Dlpack(X[::-1]), X[::-1].copy()),
    "DLPack broadcast": (lambda: Dlpack(np.broadcast_to(X[0], (5, 4))), np.stack([X[0]] * 5)),
    "DLPack empty": (lambda: Dlpack(np.zeros((0, 4), np.float32)), np.zeros((0, 4), np.float32)),
    "DLPack empty, without memory": (lambda: Dlpack(np.zeros((0, 4), np.float32), data=0),
                                     np.zeros((0, 4), np.float32)),
    "list": (lambda: X.tolist(), X),
    "tuples in a list": (lambda: [tuple(row) for row in X.tolist()], X),
    "named tuple": (lambda: POINT(1.0, 2.0), np.float32([1, 2])),
    "whole numbers": (lambda: [[1, 2**24], [-3, 2**30]], np.float32([[1, 2**24], [-3, 2**30]])),
    "numbers of every type": (lambda: [1, 2.5, np.float16(3), np.float32(4), np.float64(5), np.uint64(6), np.int8(-7)],
                              np.float32([1, 2.5, 3, 4, 5, 6, -7])),
    "rounded": (lambda: [0.1, 1e-60, 3.4028235e38], np.float32([0.1, 0, 3.4028235e38])),
    "infinities in a list": (lambda: [1, float("-inf"), float("nan")], np.float32([1, -np.inf, np.nan])),
    "empty list": (lambda: [], np.zeros(0, np.float32)),
    "empty lists": (lambda: [[], []], np.zeros((2, 0), np.float32)),
    "lists of rank 8": (lambda: in_lists(8), np.ones((1,) * 8, np.float32)),
    "arrays in a list": (lambda: [X[0], X[1]], X[:2].copy()),
    "float64 arrays in lists": (lambda: [[WIDE[0]], [WIDE[2][::-1][::-1].astype(">f8")]], WIDE[::2].reshape(2, 1, 4)),
    "other arrays in a list": (lambda: [Dlpack(X[0]), memoryview(X[1])], X[:2].copy()),
}

# name: (makes x, the error, what its text has). {x} stands for the name.
REFUSED = {
    "masked": (lambda: np.ma.array(X, mask=X > 0), TypeError, ("{x}: is a numpy.ma", "mask", "lengths=")),
    "masked, without a mask": (lambda: np.ma.array(X), TypeError, ("{x}: is a numpy.ma", "mask")),
    "masked float64, every other": (lambda: np.ma.array(WIDE, mask=True)[:, ::2], TypeError, ("{x}: is a numpy.ma",)),
    "masked constant": (lambda: np.ma.masked, TypeError, ("{x}: is a numpy.ma",)),
    "masked in a list": (lambda: [np.ma.array(X[0], mask=True)], TypeError, ("{x}[0]: is a numpy.ma", "mask")),
    "masked constant in a list": (lambda: [1.0, np.ma.masked], TypeError, ("{x}[1]: masked",)),
    "matrix": (lambda: X.view(np.matrix), TypeError, ("{x}: is a numpy.matrix",)),
    "record array": (lambda: structured(X).view(np.recarray), TypeError, ("{x}: is a numpy.", "recarray")),
    "character array": (lambda: np.char.array(["1"]), TypeError, ("{x}: is a numpy.",)),
    "array with units": (lambda: X.view(Quantity), TypeError, ("{x}: is a ", "Quantity", "would be lost")),
    "units outside": (lambda: Units(X), TypeError, ("{x}: is a ", "Units", "would be lost")),
    "interface with a mask": (lambda: Interface(X, mask=Interface(X > 0)), TypeError, ("{x}: is a ", "would be lost")),
    "interface that lies": (lambda: Interface(X, typestr="nonsense"), TypeError, ("{x}: is a ", "Interface")),
    "labels": (Labelled, TypeError, ("{x}: is a ", "Labelled", "numpy.asarray({x})")),
    "structured": (lambda: structured(X), TypeError, ("{x}: is a numpy.ndarray of [('a'", *OPTIONS)),
    "structured, one field": (lambda: X.view([("a", np.float32)]), TypeError, ("{x}: is a numpy.ndarray of [('a'",)),
    "objects": (lambda: X.astype(object), TypeError, ("{x}: is a numpy.ndarray of object", *OPTIONS)),
    "long double": (lambda: X.astype(np.longdouble), TypeError, ("{x}: ", "float128", *OPTIONS)),
    "complex": (lambda: X.astype(np.complex64), TypeError, ("{x}: ", "complex64", *OPTIONS)),
    "bool": (lambda: X > 0, TypeError, ("{x}: ", "bool", *OPTIONS)),
    "int8": (lambda: X.astype(np.int8), TypeError, ("{x}: ", "int8", *OPTIONS)),
    "int64": (lambda: X.astype(np.int64), TypeError, ("{x}: ", "int64", *OPTIONS)),
    "uint64": (lambda: np.arange(3, dtype=np.uint64), TypeError, ("{x}: ", "uint64", *OPTIONS)),
    "dates": (lambda: np.array(["2026-01-01"], "M8[s]"), TypeError, ("{x}: ", "datetime64[s]", *OPTIONS)),
    "durations": (lambda: np.array([1], "m8[s]"), TypeError, ("{x}: ", "timedelta64[s]", *OPTIONS)),
    "texts": (lambda: np.array(["1"]), TypeError, ("{x}: ", "<U1", *OPTIONS)),
    "rank 0": (lambda: np.array(1, np.float32), ValueError, ("{x}: has rank 0, must be 1 to 8",)),
    "numpy's number": (lambda: np.float64(1), ValueError, ("{x}: ", "rank 0, must be 1 to 8")),
    "rank 9": (lambda: np.zeros((1,) * 9, np.float32), ValueError, ("{x}: has rank 9, must be 1 to 8",)),
    "huge": (lambda: HUGE, ValueError, ("{x}: has 4398046511104 bytes, at most",)),
    "float": (lambda: 1.5, ValueError, ("{x}: 1.5 has rank 0, must be 1 to 8",)),
    "int": (lambda: 3, ValueError, ("{x}: 3 has rank 0",)),
    "complex number": (lambda: 1j, TypeError, ("{x}: is a complex", *OPTIONS)),
    "True": (lambda: True, TypeError, ("{x}: is a bool", *OPTIONS)),
    "None": (lambda: None, TypeError, ("{x}: is a NoneType", *OPTIONS)),
    "text": (lambda: "1 2 3", TypeError, ("{x}: is a str", *OPTIONS)),
    "bytes": (lambda: X.tobytes(), TypeError, ("{x}: is a bytes of uint8", *OPTIONS)),
    "bytearray": (lambda: bytearray(12), TypeError, ("{x}: is a bytearray of uint8", *OPTIONS)),
    "decimal": (lambda: decimal.Decimal(1), TypeError, ("{x}: is a decimal.Decimal", *OPTIONS)),
    "dict": (lambda: {"a": 1}, TypeError, ("{x}: is a dict", *OPTIONS)),
    "set": (lambda: {1.0}, TypeError, ("{x}: is a set", *OPTIONS)),
    "range": (lambda: range(3), TypeError, ("{x}: is a range", *OPTIONS)),
    "generator": (lambda: (i for i in (1.0, 2.0)), TypeError, ("{x}: is a generator", *OPTIONS)),
    "object": (object, TypeError, ("{x}: is a object", *OPTIONS)),
    "class": (lambda: np.ndarray, TypeError, ("{x}: is a type", *OPTIONS)),
    "memoryview of bytes": (lambda: memoryview(X.tobytes()), TypeError, ("{x}: is a memoryview of uint8", *OPTIONS)),
    "memoryview of bools": (lambda: memoryview(b"\0\1").cast("?"), TypeError, ("{x}: is a memoryview of bool",)),
    "memoryview of structs": (lambda: memoryview(structured(X)), TypeError, ("{x}: is a memoryview of [('a'",)),
    "memoryview released": (released, TypeError, ("{x}: is a memoryview", "released")),
    "array.array of ints": (lambda: array.array("i", [1]), TypeError, ("{x}: is a array.array of int32", *OPTIONS)),
    "array.array of letters": (lambda: array.array("u", "a"), TypeError, ("{x}: is a array.array",)),
    "ctypes struct": (lambda: (type("S", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_float)]}) * 2)(), TypeError,
                      ("{x}: is a ", "S_Array_2")),
    "too large": (lambda: [1e39, 0, 1], ValueError, ("{x}[0]: 1e+39 is beyond float32", "float64")),
    "too large, negative, deep": (lambda: [[[0.0, 1.0]], [[2.0, -3.5e38]]], ValueError,
                                  ("{x}[1][0][1]: -3.5e+38 is beyond float32",)),
    "too large whole number": (lambda: [0, 10**39], ValueError, ("{x}[1]: 1000", "beyond float32")),
    "enormous whole number": (lambda: [10**5000], ValueError, ("{x}[0]: a number of 16610 bits is beyond float32",)),
    "too many digits": (lambda: [[0], [2**24 + 1]], ValueError, ("{x}[1][0]: 16777217 has more digits", "float64")),
    "too many digits of numpy's": (lambda: [np.uint64(2**64 - 1)], ValueError, ("{x}[0]: 18446744073709551615 has",)),
    "complex in a list": (lambda: [1.0, 2j], TypeError, ("{x}[1]: 2j is a complex, must be a number",)),
    "numpy's complex in a list": (lambda: [np.complex64(1)], TypeError, ("{x}[0]: is a numpy.complex64", *OPTIONS)),
    "bool in a list": (lambda: [1.0, True], TypeError, ("{x}[1]: True is a bool, must be a number",)),
    "text in a list": (lambda: ["1.5"], TypeError, ("{x}[0]: '1.5' is a str, must be a number",)),
    "None in a list": (lambda: [[1.0, None]], TypeError, ("{x}[0][1]: None is a NoneType, must be a number",)),
    "decimal in a list": (lambda: [decimal.Decimal("0.1")], TypeError, ("{x}[0]: Decimal('0.1') is a",)),
    "fraction in a list": (lambda: [fractions.Fraction(1, 3)], TypeError, ("{x}[0]: Fraction(1, 3) is a",)),
    "date in a list": (lambda: [datetime.date(2026, 1, 1)], TypeError, ("{x}[0]: datetime.date(2026, 1, 1) is a",)),
    "duration in a list": (lambda: [1, np.timedelta64(1, "s")], TypeError, ("{x}[1]: ", "timedelta64(1,'s') is a")),
    "long double in a list": (lambda: [1.0, np.longdouble(1)], TypeError, ("{x}[1]: ", " is a numpy.")),
    "own kind of number": (lambda: [Number(1)], TypeError, ("{x}[0]: 1.0 is a ", "Number")),
    "ragged": (lambda: [[1, 2], [3]], ValueError, ("{x}[1]: has length 1, but {x}[0] has 2",)),
    "ragged deep": (lambda: [[[1], [2]], [[3], [4, 5]]], ValueError, ("{x}[1][1]: has length 2, but {x}[0][0] has 1",)),
    "lists among numbers": (lambda: [1, [2]], TypeError, ("{x}[1]: [2] is a list, must be a number",)),
    "numbers among lists": (lambda: [[1], 2], TypeError, ("{x}[0]: [1] is a list, must be a number",)),
    "lists deeper than rank 8": (lambda: in_lists(9), ValueError, ("{x}: has lists in lists deeper than rank 8",)),
    "lists a thousand deep": (lambda: in_lists(1000), ValueError, ("{x}: has lists in lists deeper than rank 8",)),
    "list in itself": (endless_list, ValueError, ("{x}: has lists in lists deeper than rank 8",)),
    "arrays of other types in a list": (lambda: [X[0], WIDE[0]], ValueError, ("{x}[1]: is float64 [4], but {x}[0]",)),
    "arrays of other shapes in a list": (lambda: [X[0], X[0, :2]], ValueError, ("{x}[1]: is float32 [2], but {x}[0]",)),
    "numbers among arrays": (lambda: [X[0], 1.0], TypeError, ("{x}[1]: 1.0 is a float, must be an array like {x}[0]",)),
    "whole arrays in a list": (lambda: [np.arange(3)], TypeError, ("{x}[0]: is a numpy.ndarray of int64", *OPTIONS)),
    "DLPack of bools": (lambda: Dlpack(X, code=6, bits=8), TypeError, ("{x}: is a reference.Dlpack of bool8",)),
    "DLPack of ints": (lambda: Dlpack(X, code=0), TypeError, ("{x}: is a reference.Dlpack of int32", *OPTIONS)),
    "DLPack of complex": (lambda: Dlpack(X, code=5, bits=64), TypeError, ("{x}: ", "complex64", *OPTIONS)),
    "DLPack of pairs": (lambda: Dlpack(X, lanes=2), TypeError, ("{x}: ", "float32x2", *OPTIONS)),
    "DLPack of an unknown type": (lambda: Dlpack(X, code=99), TypeError, ("{x}: ", "type 99, 32", *OPTIONS)),
    "DLPack on a device": (lambda: Dlpack(X, device=2), TypeError, ("{x}: ", "on a device", "CPU")),
    "DLPack of rank 0": (lambda: Dlpack(np.array(1, np.float32)), ValueError, ("{x}: has rank 0",)),
    "DLPack of rank 9": (lambda: Dlpack(np.zeros((1,) * 9, np.float32)), ValueError, ("{x}: has rank 9",)),
    "DLPack of rank 40": (lambda: Dlpack(X, shape=(1,) * 40, strides=(1,) * 40), TypeError, ("{x}: ", "rank 40")),
    "DLPack huge": (lambda: Dlpack(X, shape=(2**40,), strides=(0,)), ValueError, ("{x}: has 4398046511104 bytes",)),
    "DLPack without end": (lambda: Dlpack(X, shape=(2**62, 2**62), strides=(0, 0)), TypeError, ("{x}: ", "shape [46")),
    "DLPack empty, but huge": (lambda: Dlpack(X, shape=(0, 2**62, 2**62), strides=(0, 0, 0)), TypeError, ("{x}: ",)),
    "DLPack with a negative shape": (lambda: Dlpack(X, shape=(-1, 4)), TypeError, ("{x}: ", "shape [-1, 4]")),
    "DLPack without memory": (lambda: Dlpack(X, data=0), TypeError, ("{x}: ", "no memory")),
    "DLPack with a gradient": (lambda: Raises(RuntimeError("Can't export tensors that require gradient")), TypeError,
                               ("{x}: ", "Raises", "require gradient")),
    "DLPack read-only": (lambda: Raises(BufferError("Cannot export readonly array")), TypeError, ("{x}: ", "readonly")),
    "DLPack of no device": (lambda: NoDevice(ValueError("Unknown device type meta")), TypeError, ("{x}: ", "meta")),
    "DLPack without a capsule": (lambda: NoCapsule(X), TypeError, ("{x}: ", "no fresh tensor")),
    "DLPack used up": (lambda: UsedCapsule(X), TypeError, ("{x}: ", "no fresh tensor")),
}


def rows_of(x):
    return x.size // x.shape[-1] if x.shape[-1] else int(np.prod(x.shape[:-1]))


def asked_async(call):
    def run(client, server, x, like):
        async def main():
            async with softmax_client.AsyncClient(server.address) as loops_client:
                return await call(loops_client, x, like)

        return asyncio.run(main())
    return run


def by_stream(client, _, x, __):
    with client.stream() as stream:
        stream.send(x)
        return raised(stream.receive()[1])


async def by_async_stream(client, x, _):
    async with client.stream() as stream:
        await stream.send(x)
        return raised((await stream.receive())[1])


def raised(answer):
    if isinstance(answer, Exception):
        raise answer
    return answer


def all_places(like):
    return np.broadcast_to(np.arange(like.shape[-1]), (rows_of(like), like.shape[-1]))


def from_summary(summary, like):
    return np.empty_like(like) if summary.values_at is None else summary.values_at


# (the name that x has there, the call). `like` is an array such as x's answer.
WAYS = {
    "softmax": ("x", lambda c, _, x, like: c.softmax(x)),
    "log_softmax": ("x", lambda c, _, x, like: np.exp(c.log_softmax(x))),
    "out=": ("x", lambda c, _, x, like: c.softmax(x, out=np.empty_like(like))),
    "lengths=": ("x", lambda c, _, x, like: c.softmax(x, lengths=[like.shape[-1]] * rows_of(like))),
    "summarize": ("x", lambda c, _, x, like: from_summary(c.summarize(x, indices=all_places(like)), like)),
    "softmax_batch": ("xs[1]", lambda c, _, x, like: c.softmax_batch([X, x])[1]),
    "softmax_batch, exceptions": ("xs[1]", lambda c, _, x, like: raised(
        c.softmax_batch([X, x, X], return_exceptions=True)[1])),
    "stream": ("x", by_stream),
    "asyncio": ("x", asked_async(lambda c, x, like: c.softmax(x))),
    "asyncio, out=": ("x", asked_async(lambda c, x, like: c.softmax(x, out=np.empty_like(like)))),
    "asyncio, summarize": ("x", asked_async(lambda c, x, like: c.summarize(x, top_k=1))),
    "asyncio, stream": ("x", asked_async(by_async_stream)),
}
