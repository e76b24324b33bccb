"""Where offloaded segments lie: a file system that answers late, refuses, or does what it was asked
and says that it did not; and the threads in which production uses it.

Production's own code writes and reads Parquet here, by pyarrow; only what pyarrow takes for a file
system is simulated. A file can be seen while it is written, and whoever dies leaves what there is
of it. What a thread was to do is done in one step, some time after it was asked for; who asked
hears of it later still, so that a process may die in between.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from unittest.mock import patch

import pyarrow as pa
from pyarrow import fs

from quire.log.cold import parquet, reader
from quire.log.cold import tier as cold_tier
from quire.testing.sim.loop import SimLoop

T = TypeVar("T")

SCHEME: Final = "sim://"
NOWHERE: Final = "mistyped"
"""A bucket that does not exist: what is listed is empty, and nothing can be written."""
SLOW_SECONDS: Final = 0.5


class Threads:
    """Threads of a process; what they do takes virtual time."""

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._mean = rng.choice([0.0001, 0.002])
        self._slow = rng.choice([0.0, 0.0, 0.01])

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have a thread do some work; the future is done when that is known."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(self._delay(), self._work, work, done)
        return done

    def _delay(self) -> float:
        if self._rng.random() < self._slow:
            return SLOW_SECONDS * self._rng.random()
        return self._rng.expovariate(1 / self._mean)

    def _work(self, work: Callable[[], T], done: asyncio.Future[T]) -> None:
        try:
            result = work()
        except Exception as error:
            self._loop.call_later(self._delay(), self._tell, done.set_exception, done, error)
        else:
            self._loop.call_later(self._delay(), self._tell, done.set_result, done, result)

    def _tell(self, tell: Callable[[Any], None], done: asyncio.Future[T], result: Any) -> None:
        if not done.done():
            tell(result)


class SimTier(fs.FileSystemHandler):  # type: ignore[misc]
    """Files by path. `refusal` and `silence` are how often a call is not carried out, or carried
    out and called a failure, `damage` how often a bit of what is written is another one; `note` is
    told of each. `before_delete` is told of each path that goes, `before_placing` of each new one.
    """

    def __init__(self, rng: random.Random, note: Callable[[str], None]) -> None:
        self._rng = rng
        self._note = note
        self.files: dict[str, bytearray] = {}
        self.refusal = rng.choice([0.0, 0.0, 0.01, 0.05])
        self.silence = rng.choice([0.0, 0.0, 0.01, 0.05])
        self.damage = rng.choice([0.0, 0.0, 0.02])
        self.damaged: set[str] = set()
        self.before_delete: Callable[[str], None] = lambda _: None
        self.before_placing: Callable[[str], None] = lambda _: None

    def heal(self) -> None:
        """From now on it does what it is asked."""
        self.refusal = self.silence = self.damage = 0.0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have production find this file system wherever it looks for one."""
        system = fs.PyFileSystem(self)

        def locate(uri: str) -> tuple[Any, str]:
            assert uri.startswith(SCHEME), uri
            return system, uri.removeprefix(SCHEME)

        with (
            patch.object(parquet, "locate", locate),
            patch.object(reader, "locate", locate),
            patch.object(cold_tier, "locate", locate),
        ):
            yield

    @contextmanager
    def _answering(self) -> Iterator[None]:
        self._may_fail(self.refusal)
        yield
        self._may_fail(self.silence)

    def _may_fail(self, chance: float) -> None:
        if chance and self._rng.random() < chance:
            self._note("tier failed")
            raise OSError("the tier does not answer")

    def get_type_name(self) -> str:
        return "simulated"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        with self._answering():
            return [self._info(path) for path in paths]

    def _info(self, path: str) -> Any:
        if path in self.files:
            return fs.FileInfo(path, fs.FileType.File, size=len(self.files[path]))
        return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        with self._answering():
            return [self._info(path) for path in self._below(selector.base_dir)]

    def _below(self, directory: str) -> list[str]:
        below = (path for path in self.files if path.startswith(directory + "/"))
        return sorted(path for path in below if "/" not in path[len(directory) + 1 :])

    def create_dir(self, path: str, recursive: bool) -> None:
        with self._answering():
            pass  # directories are there as soon as something is in them

    def delete_file(self, path: str) -> None:
        with self._answering():
            if path not in self.files:
                raise FileNotFoundError(path)
            self._delete(path)

    def _delete(self, path: str) -> None:
        self.before_delete(path)
        del self.files[path]

    def move(self, src: str, dest: str) -> None:
        """As an object store does it: a copy that appears as a whole, then a deletion."""
        with self._answering():
            if src not in self.files:
                raise FileNotFoundError(src)
            self.before_placing(dest)
            self.files[dest] = bytearray(self.files[src])
            if src in self.damaged:
                self.damaged.add(dest)
            self._may_fail(self.refusal)
            self._delete(src)

    def open_input_file(self, path: str) -> Any:
        with self._answering():
            if path not in self.files:
                raise FileNotFoundError(path)
            return pa.PythonFile(_Reading(self, path), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> Any:
        if path.startswith(f"{NOWHERE}/"):
            raise OSError(f"no such bucket: {NOWHERE}")
        with self._answering():
            self.before_placing(path)
            self.files[path] = bytearray()
            return pa.PythonFile(_Writing(self, path), mode="w")

    def read(self, path: str, start: int, count: int) -> bytes:
        """What an open file gives."""
        with self._answering():
            if path not in self.files:
                raise FileNotFoundError(path)
            return bytes(self.files[path][start : start + count])

    def write(self, path: str, data: bytes) -> None:
        """What is added to an open file."""
        with self._answering():
            if path not in self.files:
                raise FileNotFoundError(path)
            if data and self.damage and self._rng.random() < self.damage:
                data = self._hurt(path, data)
            self.files[path] += data

    def _hurt(self, path: str, data: bytes) -> bytes:
        self._note("file damaged")
        self.damaged.add(path)
        at = self._rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._rng.randrange(8)]) + data[at + 1 :]

    # What production does not ask of a file system.

    def delete_dir(self, path: str) -> None:
        raise NotImplementedError

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        raise NotImplementedError

    def open_append_stream(self, path: str, metadata: object) -> Any:
        raise NotImplementedError


class _Open:
    """An open file, as far as pyarrow looks."""

    def __init__(self, tier: SimTier, path: str) -> None:
        self._tier = tier
        self._path = path
        self._at = 0
        self.closed = False

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class _Reading(_Open):
    def seek(self, offset: int, whence: int = 0) -> int:
        end = len(self._tier.files.get(self._path, b""))
        self._at = offset + (0, self._at, end)[whence]
        return self._at

    def read(self, count: int = -1) -> bytes:
        count = 1 << 40 if count < 0 else count
        data = self._tier.read(self._path, self._at, count)
        self._at += len(data)
        return data


class _Writing(_Open):
    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._tier.write(self._path, piece)
        self._at += len(piece)
        return len(piece)
