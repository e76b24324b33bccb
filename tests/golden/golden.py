"""One golden file: its name, the value that it holds, and how it is written and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FILES = Path(__file__).parent / "files"


class Golden(NamedTuple):
    """`covers` names the formats, as docs/formats.md names them, that the file is an example of."""

    name: str
    value: Any
    write: Callable[[], bytes]
    read: Callable[[bytes], Any]
    covers: tuple[str, ...]

    @property
    def data(self) -> bytes:
        return (FILES / self.name).read_bytes()
