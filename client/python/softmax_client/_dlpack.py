"""Memory of other libraries by DLPack, and of regions for them: capsules read and made by ctypes."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, List, Sequence, Tuple

_FRESH, _USED = b"dltensor", b"used_dltensor"
_MAX_RANK = 32  # numpy's
_KINDS = ("int", "uint", "float", "opaque", "bfloat", "complex", "bool")
# As __array_interface__ has them; bfloat16's elements are given as their bits.
_TYPES = {"float32": "<f4", "float16": "<f2", "float64": "<f8", "bfloat16": "<u2",
          **{f"{kind}{8 * size}": f"<{kind[0]}{size}" for kind in ("int", "uint") for size in (1, 2, 4, 8)}}


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def _of_python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _of_python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer_of = _of_python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _of_python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_new = _of_python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
# Of a capsule that ends, which nobody may hold any more.
_ending_is_valid = _of_python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_ending_pointer_of = _of_python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_DELETER: Any = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_nothing = ctypes.create_string_buffer(8)  # where tensors without elements and memory lie


class Memory:
    """Holds a tensor until it ends. numpy.asarray makes an array over it."""

    def __init__(self, address: int) -> None:
        self._address = address
        tensor = _Managed.from_address(address)
        if not 0 <= tensor.ndim <= _MAX_RANK:
            raise ValueError(f"has rank {tensor.ndim}")
        shape = tuple(tensor.shape[: tensor.ndim])
        size = (tensor.bits * tensor.lanes + 7) // 8
        if min(shape, default=0) < 0 or math.prod(shape) * max(size, 1) >= 2**63:
            raise ValueError(f"has shape {list(shape)}")
        if tensor.data is None and math.prod(shape):
            raise ValueError("has no memory")
        strides = None
        if tensor.strides:
            strides = tuple(stride * size for stride in tensor.strides[: tensor.ndim])
            if any(abs(stride) >= 2**63 for stride in strides):
                raise ValueError("has too large strides")
        kind = _KINDS[tensor.code] if tensor.code < len(_KINDS) else f"type {tensor.code}, "
        self.dtype = f"{kind}{tensor.bits}" + (f"x{tensor.lanes}" if tensor.lanes != 1 else "")
        place = tensor.data + tensor.byte_offset if tensor.data else ctypes.addressof(_nothing)
        self.__array_interface__ = {"version": 3, "shape": shape, "strides": strides, "data": (place, False),
                                    "typestr": _TYPES.get(self.dtype, f"|V{size}")}

    def __del__(self, deleter: Any = _DELETER, managed: Any = _Managed) -> None:
        end = managed.from_address(self._address).deleter
        if end:
            deleter(end)(self._address)


def memory_of(capsule: Any) -> Memory:
    """Takes the tensor out of what an object's __dlpack__() gave. ValueError: it is none that can be read."""
    if not _is_valid(capsule, _FRESH):
        raise ValueError("its __dlpack__() is no fresh tensor")
    address = _pointer_of(capsule, _FRESH)
    _set_name(capsule, _USED)  # so that its own end leaves the tensor to us
    return Memory(address)


_lent: Dict[int, Tuple[Any, ...]] = {}  # by the address of a tensor: it, its shape, and what holds its memory


def _forget(address: int) -> None:
    _lent.pop(address, None)


def _forget_untaken(capsule: int) -> None:
    """Of a capsule that ends: if nobody took the tensor out of it."""
    if _ending_is_valid(capsule, _FRESH):
        _forget(_ending_pointer_of(capsule, _FRESH))


_end_lent, _end_capsule = _DELETER(_forget), _DELETER(_forget_untaken)


# Others have their addresses, and may use them while the interpreter ends.
_immortal: List[Any] = [_USED, _FRESH, _end_lent, _end_capsule, _lent]
for _kept in _immortal:
    _of_python("Py_IncRef", None, ctypes.py_object)(_kept)


def capsule_of(address: int, cuda_device: int, shape: Sequence[int], code: int, bits: int, owner: Any) -> Any:
    """A row-major tensor in CUDA's memory, for torch and others; `owner` is held as long as they use it."""
    dimensions = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = _Managed(address, 2, cuda_device, len(shape), code, bits, 1, dimensions, None, 0, None,
                      ctypes.cast(_end_lent, ctypes.c_void_p))
    place = ctypes.addressof(tensor)
    _lent[place] = (tensor, dimensions, owner)
    return _new(place, _FRESH, ctypes.cast(_end_capsule, ctypes.c_void_p))
