"""Durations and sizes as a person types them: `7d`, `1h30m`, `64MiB`.

A number without a unit is seconds, or bytes. Pure: no clock and no I/O.
"""

from __future__ import annotations

import math
import re
from typing import Final

from quire.errors import ConfigurationError

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
"""Seconds of each unit of time."""

BYTES: Final = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)},
}
"""Bytes of each unit of size: `kB` is 1000 bytes, `KiB` is 1024."""

_NUMBER: Final = r"\d+(?:\.\d+)?"
_PART: Final = re.compile(rf"({_NUMBER})(ms|s|m|h|d|w)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_SIZE: Final = re.compile(rf"({_NUMBER}) ?([A-Za-z]+)")


def parse_seconds(text: str) -> float:
    """Return the seconds that a text says. Raises `ConfigurationError`."""
    try:
        return float(text)
    except ValueError:
        pass
    if not _WHOLE.fullmatch(text):
        raise ConfigurationError(
            f"{text!r} is not a duration: write seconds, or a number with "
            f"{', '.join(SECONDS)}, such as 7d or 1h30m"
        )
    return sum(float(number) * SECONDS[unit] for number, unit in _PART.findall(text))


def parse_bytes(text: str) -> int:
    """Return the bytes that a text says. Raises `ConfigurationError`."""
    try:
        return int(text)
    except ValueError:
        pass
    match = _SIZE.fullmatch(text)
    factor = BYTES.get(match[2]) if match else None
    if match is None or factor is None:
        raise ConfigurationError(
            f"{text!r} is not a size: write bytes, or a number with {', '.join(BYTES)}, "
            "such as 64MiB"
        )
    size = float(match[1]) * factor
    if not math.isfinite(size):
        raise ConfigurationError(f"{text[:20]}… is not a size: it has {len(text)} characters")
    if size != int(size):
        raise ConfigurationError(f"{text!r} is {size:g} bytes, which is not a whole number")
    return int(size)
