"""Softmax over the network, for numpy arrays and torch tensors: a client of softmax-server.

    import numpy as np, softmax_client

    with softmax_client.Client("localhost:50051") as client:
        print(client.softmax(np.array([[1, 2, 3]], np.float32)))

Client is for threads, AsyncClient for asyncio. Errors are SoftmaxError, with gRPC's status code.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import _library  # before numpy: it says what is missing
from .client import Client, Stream
from .errors import (AccessDeniedError, CancelledError, DeadlineExceededError, InvalidArgumentError,
                     ResourceExhaustedError, SoftmaxError, StatusCode, UnavailableError)
from .options import Retry, Summary, Tls
from .regions import DeviceArray

if TYPE_CHECKING:
    from .aio import AsyncClient, AsyncStream

__all__ = ["AccessDeniedError", "AsyncClient", "AsyncStream", "CancelledError", "Client", "DeadlineExceededError",
           "DeviceArray", "InvalidArgumentError", "ResourceExhaustedError", "Retry", "SoftmaxError", "StatusCode",
           "Stream", "Summary", "Tls", "UnavailableError"]


def __getattr__(name: str) -> Any:
    """asyncio takes long to import, and is for some."""
    if name in ("AsyncClient", "AsyncStream"):
        return getattr(importlib.import_module(".aio", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
