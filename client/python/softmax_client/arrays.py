"""What counts as an array: one rule for x, xs, out=, lengths= and indices=, in every call.

The native module asks it about x and out unless they are plain numpy arrays, options.py about the others. Taken is what
has all its meaning in its numbers. What holds more (a mask, units, an index, a gradient), or would have to be converted
by guess, is refused by name: it would be lost without a word.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Tuple

import numpy as np

from ._checks import shown
from ._dlpack import memory_of
from .regions import numpy_type, on_device

TYPES: Dict[str, int] = {"float32": 1, "float16": 2, "bfloat16": 3, "float64": 4}  # the wire's numbers
_FLOATS = frozenset(TYPES)
_WHOLE = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
_MUST_BE = {_FLOATS: "must be of float32, float16, bfloat16 or float64", _WHOLE: "must be of whole numbers"}

_MAX_RANK = 8
_MAX_BYTES = 2**31 - 1  # gRPC counts a message's bytes in an int

_WHOLE_NUMBERS = frozenset((int, *(np.dtype(letter).type for letter in "bhilqBHILQ")))
_NUMBERS = _WHOLE_NUMBERS | {float, np.float16, np.float32, np.float64}

# An array, perhaps with gaps or of foreign byte order, and the name of its elements' type; bfloat16 as its bits.
Typed = Tuple[Any, str]
# Makes an array of a list's numbers; the function tells the place of the i-th for errors.
Convert = Callable[[List[Any], Callable[[int], str]], Typed]


def to_send(name: str, x: Any) -> Tuple[Any, ...]:
    """x row-major without gaps and native, copied only if it is not, and its type's number. Of device memory: its
    address, shape, type's number and owner."""
    if (device := on_device(name, x)) is not None:
        return device[0], device[1], TYPES[device[2]], device[3]
    if type(x) in _NUMBERS:
        raise ValueError(f"{name}: {shown(x)} has rank 0, must be 1 to {_MAX_RANK}")
    array, dtype = _array_of(name, x, _FLOATS, _as_float32)
    if not 1 <= array.ndim <= _MAX_RANK:
        raise ValueError(f"{name}: has rank {array.ndim}, must be 1 to {_MAX_RANK}")
    if array.nbytes > _MAX_BYTES:
        raise ValueError(f"{name}: has {array.nbytes} bytes, at most {_MAX_BYTES} can be sent")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")), TYPES[dtype]


def to_fill(name: str, out: Any) -> Tuple[Any, ...]:
    """An array over out's own memory, row-major without gaps, native and writable, and its type's number. Of device
    memory: as to_send."""
    if (device := on_device(name, out)) is not None:
        return device[0], device[1], TYPES[device[2]], device[3]
    found = _over_memory_of(name, out, _FLOATS)
    if found is None:
        raise TypeError(f"{name}: is a {_kind(out)}, which has no memory of its own to write to")
    array, dtype = found
    if not array.flags.c_contiguous or not array.dtype.isnative:
        raise ValueError(f"{name}: must be row-major without gaps, in this machine's byte order")
    if not array.flags.writeable:
        raise ValueError(f"{name}: is a {_kind(out)} that is read-only, must be writable")
    return array, TYPES[dtype]


def whole_numbers(name: str, numbers: Any, least: int, most: int, dtype: Any) -> Any:
    """Whole numbers from an array or a list of any shape, or from one number, as one row of that type."""
    def convert(values: List[Any], place: Callable[[int], str]) -> Typed:
        _check_types(values, place, _WHOLE_NUMBERS, "a whole number")
        for i, value in enumerate(values):
            if not least <= value <= most:
                raise ValueError(f"{place(i)}: {shown(value)}, must be {least} to {most}")
        return np.array(values, dtype), "whole"

    if type(numbers) is np.ndarray and numbers.size == 0:
        return np.empty(0, dtype)  # numpy's own type for empty arrays is float64
    array, _ = _array_of(name, [numbers] if type(numbers) in _NUMBERS else numbers, _WHOLE, convert)
    wrong = (array < least) | (array > most)
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"{_place(name, array.shape, at)}: {array.flat[at]}, must be {least} to {most}")
    return np.ascontiguousarray(array, dtype).reshape(-1)


def _array_of(name: str, x: Any, types: FrozenSet[str], convert: Convert) -> Typed:
    if isinstance(x, (list, tuple)):
        return _from_list(name, x, types, convert)
    found = _over_memory_of(name, x, types)
    if found is None:
        advice = f"; if its numbers are all that counts, pass numpy.asarray({name})" if _converts(x) else ""
        raise TypeError(f"{name}: is a {_kind(x)}, which is no array; {_MUST_BE[types]}{advice}")
    return found


def _from_list(name: str, items: Any, types: FrozenSet[str], convert: Convert) -> Typed:
    """From lists in lists of numbers, or of arrays, which are put together and keep their type."""
    shape: Tuple[int, ...] = (len(items),)

    def place(i: int) -> str:
        return _place(name, shape, i)

    while items and all(isinstance(item, (list, tuple)) for item in items):
        if len(shape) == _MAX_RANK:
            raise ValueError(f"{name}: has lists in lists deeper than rank {_MAX_RANK}, must be 1 to {_MAX_RANK}")
        length = len(items[0])
        for i, inner in enumerate(items):
            if len(inner) != length:
                raise ValueError(f"{place(i)}: has length {len(inner)}, but {place(0)} has {length}; "
                                 "lists must be of one length")
        shape, items = (*shape, length), [item for inner in items for item in inner]

    first = None
    if items and type(items[0]) not in _NUMBERS and not isinstance(items[0], (list, tuple)):
        first = _over_memory_of(place(0), items[0], types)
    if first is None:
        array, dtype = convert(items, place)
        return array.reshape(shape), dtype
    parts = []
    for i, item in enumerate(items):
        part = _over_memory_of(place(i), item, types)
        if part is None:
            raise TypeError(f"{place(i)}: {shown(item)} is a {_kind(item)}, must be an array like {place(0)}")
        if (part[0].shape, part[1]) != (first[0].shape, first[1]):
            raise ValueError(f"{place(i)}: is {part[1]} {list(part[0].shape)}, but {place(0)} is "
                             f"{first[1]} {list(first[0].shape)}; arrays in a list must be of one type and shape")
        parts.append(part[0].astype(part[0].dtype.newbyteorder("="), copy=False))
    return np.stack(parts).reshape(shape + first[0].shape), first[1]


def _as_float32(values: List[Any], place: Callable[[int], str]) -> Typed:
    """Rounded; but no number is made infinite, and no whole number becomes another."""
    types = _check_types(values, place, _NUMBERS, "a number")
    if not types.isdisjoint(_WHOLE_NUMBERS):
        for i, value in enumerate(values):
            if type(value) in _WHOLE_NUMBERS and not -2**24 <= value <= 2**24:
                _check_whole(int(value), place(i))
    wide = np.array(values, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = wide.astype(np.float32)
    lost = np.isinf(narrow) & np.isfinite(wide)
    if lost.any():
        i = int(lost.argmax())
        raise ValueError(f"{place(i)}: {shown(values[i])} is {_TOO_LARGE}")
    return narrow, "float32"


_TOO_LARGE = "beyond float32 (3.4e38), as which lists are sent; pass an array of float64"


def _check_whole(value: int, place: str) -> None:
    size = abs(value)
    if size >= 2**128:
        raise ValueError(f"{place}: {shown(value)} is {_TOO_LARGE}")
    if (size // (size & -size)).bit_length() > 24:
        raise ValueError(f"{place}: {shown(value)} has more digits than float32, as which lists are sent; "
                         "pass an array of float64")


def _check_types(values: List[Any], place: Callable[[int], str], allowed: FrozenSet[Any],
                 wanted: str) -> FrozenSet[Any]:
    types = frozenset(map(type, values))
    if not types <= allowed:
        i, value = next((i, value) for i, value in enumerate(values) if type(value) not in allowed)
        raise TypeError(f"{place(i)}: {shown(value)} is a {_kind(value)}, must be {wanted}")
    return types


def _over_memory_of(name: str, x: Any, types: FrozenSet[str]) -> Optional[Typed]:
    """An array over x's own memory. None: x has none. TypeError: elements of other types, or more than numbers."""
    torch = sys.modules.get("torch")
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray and type(x) is not np.memmap:
            raise _more_than_numbers(name, x)
        return _typed(name, x, x, types)
    if torch is not None and isinstance(x, torch.Tensor):
        if type(x) is not torch.Tensor and type(x).__module__ != "torch.nn.parameter":
            raise _more_than_numbers(name, x)
        return _over_dlpack(name, x, types)
    if isinstance(x, np.generic):
        return _typed(name, x, np.asarray(x), types)
    with _naming(name, x):
        view = _view_of(x)
        array = None if view is None else np.asarray(view)
    if array is not None:
        return _typed(name, x, array, types)
    if hasattr(type(x), "__dlpack__"):
        return _over_dlpack(name, x, types)
    return _over_interface(name, x, types)


def _view_of(x: Any) -> Optional[memoryview]:
    try:
        return memoryview(x)
    except TypeError:
        return None  # has no buffer


def _over_dlpack(name: str, x: Any, types: FrozenSet[str]) -> Typed:
    with _naming(name, x):
        device = int(x.__dlpack_device__()[0])
    if device not in (1, 3, 11):  # the host's memory, as it is or pinned for CUDA or ROCm
        raise TypeError(f"{name}: is a {_kind(x)} on a device (DLPack's number {device}); must be on the CPU")
    with _naming(name, x):
        memory = memory_of(x.__dlpack__())
    if memory.dtype not in types:
        raise _other_type(name, x, memory.dtype, types)
    with _naming(name, x):
        return np.asarray(memory), memory.dtype


def _over_interface(name: str, x: Any, types: FrozenSet[str]) -> Optional[Typed]:
    with _naming(name, x):
        interface = None if isinstance(x, type) else getattr(x, "__array_interface__", None)
    if interface is None:
        return None
    # The first two are of classes whose arithmetic is not numpy's: with units, labels, missing values.
    if (hasattr(type(x), "__array_ufunc__") or hasattr(type(x), "__array_function__") or
            interface.get("mask") is not None):
        raise _more_than_numbers(name, x)
    with _naming(name, x):
        array = np.asarray(_Interface(interface, x))
    return _typed(name, x, array, types)


class _Interface:
    def __init__(self, interface: Any, owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner  # of the memory


def _typed(name: str, x: Any, array: Any, types: FrozenSet[str]) -> Typed:
    dtype = array.dtype.name
    if dtype not in types:
        raise _other_type(name, x, str(array.dtype), types)
    array = np.asarray(array)
    return (array.view(np.uint16) if dtype == "bfloat16" else array), dtype


def _other_type(name: str, x: Any, dtype: str, types: FrozenSet[str]) -> TypeError:
    return TypeError(f"{name}: is a {_kind(x)} of {dtype[:100]}; {_MUST_BE[types]}")


def _more_than_numbers(name: str, x: Any) -> TypeError:
    if isinstance(x, np.ma.MaskedArray):
        return TypeError(f"{name}: is a {_kind(x)}, whose mask would be lost; "
                         "pass its .filled(-numpy.inf), or its .data with lengths=")
    return TypeError(f"{name}: is a {_kind(x)}, and what it has besides its numbers would be lost; "
                     "if they are all that counts, pass a plain array of them")


@contextlib.contextmanager
def _naming(name: str, x: Any) -> Iterator[None]:
    """What x's own methods raise, such as torch's for a tensor that requires a gradient, becomes a TypeError."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(f"{name}: is a {_kind(x)} that does not give out its memory: {error}") from error


def _converts(x: Any) -> bool:
    return hasattr(type(x), "__array__")


def _place(name: str, shape: Tuple[int, ...], i: int) -> str:
    return name + "".join(f"[{k}]" for k in np.unravel_index(i, shape))


def _kind(x: Any) -> str:
    kind = type(x)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


__all__ = ["TYPES", "numpy_type", "to_fill", "to_send", "whole_numbers"]
