"""Arrays in memory that the server shares with this process: Client.allocate()."""

from __future__ import annotations

import ctypes
import importlib
import math
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import numpy as np

from ._dlpack import capsule_of
from ._library import c
from ._running import checked, forked

if TYPE_CHECKING:
    from ._calls import Calls

_BITS: Dict[str, int] = {"float32": 32, "float16": 16, "bfloat16": 16, "float64": 64}
# As __cuda_array_interface__ has them, which knows no bfloat16.
_TYPES: Dict[str, str] = {"float32": "<f4", "float16": "<f2", "float64": "<f8"}

# Where an array on a device lies, its shape, its type's name, and what holds its memory.
OnDevice = Tuple[int, Tuple[int, ...], str, Any]


class Region:
    """The memory, held by every array over it. Of host memory numpy.frombuffer(region.memory()) makes one."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self.address: int = c.region_data(handle) or 0
        self.cuda_device: int = c.region_cuda_device(handle)

    def memory(self) -> Any:
        memory: Any = (ctypes.c_ubyte * c.region_size(self._handle)).from_address(self.address)
        memory.owner = self
        return memory

    def dlpack(self, shape: Tuple[int, ...], code: int, bits: int) -> Any:
        return capsule_of(self.address, self.cuda_device, shape, code, bits, self)

    def write(self, array: Any) -> None:
        checked(c.region_write, self._handle, 0, array.ctypes.data, array.nbytes)

    def read(self, array: Any) -> None:
        checked(c.region_read, self._handle, 0, array.ctypes.data, array.nbytes)

    def __del__(self, free: Any = c.region_free, in_child: Any = forked) -> None:
        if not in_child():
            free(self._handle)


class DeviceArray:
    """A row-major array in device memory that the server shares: made by Client.allocate(..., memory="device").

    torch.from_dlpack(array) is a tensor over the same memory, and so are cupy.asarray(array) and whatever else takes
    DLPack or __cuda_array_interface__. The memory goes back to the server when the last of them has gone. The array,
    and torch's tensors over it, can be x and out of calls of the client that made it. A call waits for torch's current
    stream if x or out is a tensor; else see to it that kernels which write x, or still use out, are done.
    """

    def __init__(self, region: Region, shape: Tuple[int, ...], dtype: str) -> None:
        self._region = region
        self.shape = shape
        self.dtype = dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _BITS[self.dtype] // 8

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self.dtype not in _TYPES:
            raise AttributeError(f"__cuda_array_interface__ has no {self.dtype}; DLPack has")
        return {"shape": self.shape, "typestr": _TYPES[self.dtype], "data": (self._region.address, False),
                "strides": None, "version": 3}

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        # Nothing of ours runs on any stream: calls return when the server's kernels have ended.
        return self._region.dlpack(self.shape, 4 if self.dtype == "bfloat16" else 2, _BITS[self.dtype])

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (2, self._region.cuda_device)  # kDLCUDA

    def copy_from(self, x: Any) -> None:
        """Copies an array of the host, of the same type and shape."""
        array = np.ascontiguousarray(x)
        if array.dtype.name != self.dtype or array.shape != self.shape:
            raise ValueError(f"x: is {array.dtype.name} {list(array.shape)}, must be {self.dtype} {list(self.shape)}")
        if array.size:
            self._region.write(array)

    def copy(self) -> Any:
        """A numpy array with the same elements."""
        array = np.empty(self.shape, numpy_type(self.dtype))
        if array.size:
            self._region.read(array)
        return array


def allocate(calls: "Calls", shape: Any, dtype: str, memory: str, device: Optional[int]) -> Any:
    dimensions = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    if any(n < 0 for n in dimensions) or not 1 <= len(dimensions) <= 8:
        raise ValueError(f"shape: is {list(dimensions)}, must be 1 to 8 dimensions of 0 or more")
    if memory not in ("host", "device"):
        raise ValueError(f"memory: is {memory!r}, must be 'host' or 'device'")
    count = math.prod(dimensions)
    region = calls.allocate(max(count * _BITS[dtype] // 8, 1), memory == "device", device)
    if memory == "device":
        return DeviceArray(region, dimensions, dtype)
    return np.frombuffer(region.memory(), numpy_type(dtype), count).reshape(dimensions)


def on_device(name: str, x: Any) -> Optional[OnDevice]:
    """Where x lies, if it is one of the arrays on a device that calls take. None: it is none."""
    if isinstance(x, DeviceArray):
        return x._region.address, x.shape, x.dtype, x
    torch = sys.modules.get("torch")
    if torch is None or type(x) is not torch.Tensor or not getattr(x, "is_cuda", False):
        return None
    if x.requires_grad:
        raise TypeError(f"{name}: is a tensor with a gradient, which would be lost; pass its .detach()")
    if not x.is_contiguous():
        raise ValueError(f"{name}: is a tensor on a device with gaps or in another order, must be contiguous")
    dtype = str(x.dtype)[6:]
    if dtype not in _BITS:
        raise TypeError(f"{name}: is a tensor of {dtype}; must be of float32, float16, bfloat16 or float64")
    torch.cuda.current_stream(x.device).synchronize()
    return x.data_ptr(), tuple(x.shape), dtype, x


def numpy_type(dtype: str) -> Any:
    if dtype != "bfloat16":
        return np.dtype(dtype)
    try:
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        raise TypeError("bfloat16: numpy has no such type without the package ml_dtypes; "
                        "pass out= (a torch tensor, say) or dtype='float32'") from None


__all__ = ["DeviceArray"]
