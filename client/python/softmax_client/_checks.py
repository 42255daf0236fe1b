"""Plain arguments: each error names the argument, its value, and what it must be."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

_CENTURY = 3.2e9  # seconds; clocks count nanoseconds since 1970, and have no room for two more of them


def shown(value: Any) -> str:
    """A wrong value in an error's text."""
    if type(value) is int and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _is_not(name: str, value: Any, wanted: str) -> TypeError:
    return TypeError(f"{name}: {shown(value)}, must be {wanted}")


def boolean(name: str, value: Any) -> bool:
    if isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    raise _is_not(name, value, "True or False")


def whole(name: str, value: Any, bits: int = 64) -> int:
    try:
        result = operator.index(value)
    except TypeError:
        result = 2**bits
    if -(2 ** (bits - 1)) <= result < 2 ** (bits - 1):
        return result
    raise _is_not(name, value, f"a whole number of at most {bits} bits")


def count(name: str, value: Any) -> int:
    result = whole(name, value)
    if result < 1:
        raise ValueError(f"{name}: {result}, must be at least 1")
    return result


def number(name: str, value: Any) -> float:
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise _is_not(name, value, "a number of at most 1.8e308")


def text(name: str, value: Any, wanted: str = "a str") -> bytes:
    if not isinstance(value, str):
        raise _is_not(name, value, wanted)
    if "\0" in value:
        raise ValueError(f"{name}: {shown(value)} has a character 0")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: {shown(value)} is no text that can be sent") from None


def nanoseconds(name: str, value: Any) -> int:
    seconds = number(name, value)
    if math.isnan(seconds):
        raise ValueError(f"{name}: nan, must be seconds")
    return int(min(max(seconds, -1e9), _CENTURY) * 1e9)


def limit(value: Any) -> int:
    """How long something may take; 0: nothing was said."""
    if value is None:
        return 0
    if nanoseconds("timeout", value) < 0 or number("timeout", value) <= 0:
        raise ValueError(f"timeout: {shown(value)}, must be above 0 seconds, or None")
    return max(nanoseconds("timeout", value), 1)


def patience(value: Any) -> int:
    """How long to wait for what may be there already."""
    result = nanoseconds("timeout", value)
    if result < 0:
        raise ValueError(f"timeout: {shown(value)}, must be 0 seconds or more")
    return result
