"""What calls raise: one class for each kind of failure that programs treat differently."""

from __future__ import annotations

import enum
from typing import Dict, Optional, Type


class StatusCode(enum.IntEnum):
    """gRPC's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class SoftmaxError(Exception):
    """A call that failed. Its text begins with the server's address, if a server was asked.

    code: gRPC's status code.
    retry_after: seconds after which a busy server wants to be asked again; None: it did not say.

    Of those that are an OSError too, errno, strerror and filename are None: a status is no error of the system's.
    """

    def __init__(self, code: int, message: str, retry_after: Optional[float] = None) -> None:
        super().__init__(message)  # OSError reads more than one argument as errno, strerror and filename
        self.args = (code, message, retry_after)  # by which copies and pickles are made
        self.code = StatusCode(code)
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class InvalidArgumentError(SoftmaxError, ValueError):
    """The request is wrong in itself: field, value and limit are named."""


class DeadlineExceededError(SoftmaxError, TimeoutError):
    """There was no answer in time; attempts and waits between them included."""


class UnavailableError(SoftmaxError, ConnectionError):
    """No server could be reached, or the connection broke, and retries did not help."""


class ResourceExhaustedError(SoftmaxError):
    """The server is too busy, or the answer is larger than is taken."""


class CancelledError(SoftmaxError):
    """The call, its stream or its client was closed while it ran."""


class AccessDeniedError(SoftmaxError, PermissionError):
    """The server asks for a token, or does not accept this one."""


_CLASSES: Dict[int, Type[SoftmaxError]] = {
    StatusCode.CANCELLED: CancelledError,
    StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.UNAUTHENTICATED: AccessDeniedError,
    StatusCode.PERMISSION_DENIED: AccessDeniedError,
}


def error_of(code: int, message: str, retry_after: Optional[float]) -> SoftmaxError:
    """The exception for a status that is not OK."""
    return _CLASSES.get(code, SoftmaxError)(code, message, retry_after)
