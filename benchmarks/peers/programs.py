"""Programs of peers: installed ones, or Debian's packages, unpacked without root.

A program is looked for in known directories, on PATH, and in `build/peers`. The last is filled by
`apt-get download` and `dpkg -x`, once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.peers.peer import UnavailableError

UNPACKED: Final = Path(__file__).resolve().parents[2] / "build" / "peers"
FETCH_SECONDS: Final = 300.0


class Wanted(NamedTuple):
    """Programs of one peer, which stand in one directory."""

    programs: Sequence[str]
    packages: Sequence[str]
    """Debian's packages with the programs and with libraries that few machines have."""
    places: str = "usr/*bin"
    """Pattern of the directory, below the root of the machine or of the unpacked packages."""


class Found(NamedTuple):
    """A directory with all programs that were wanted."""

    directory: Path
    root: Path | None = None
    """Of the unpacked packages; None: the programs are installed."""

    def path(self, program: str) -> str:
        """Return a program's path."""
        return str(self.directory / program)

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the programs: libraries of unpacked packages are found."""
        if self.root is None:
            return os.environ
        libraries = ":".join(map(str, sorted(self.root.glob("usr/lib/*-linux-gnu"))))
        return {**os.environ, "LD_LIBRARY_PATH": libraries}


def find(wanted: Wanted) -> Found:
    """Return where programs are, and fetch them when the machine has none.

    Raises:
        UnavailableError: They are not installed and cannot be fetched.
    """
    for directory in _installed(wanted):
        if _has_all(directory, wanted.programs):
            return Found(directory)
    root = UNPACKED / wanted.packages[0]
    if not root.exists():
        _fetch(wanted, root)
    for directory in root.glob(wanted.places):
        if _has_all(directory, wanted.programs):
            return Found(directory, root)
    raise _unavailable(wanted, f"the packages in {root} are without them")


def _installed(wanted: Wanted) -> Iterator[Path]:
    yield from sorted(Path("/").glob(wanted.places), reverse=True)
    on_path = shutil.which(wanted.programs[0])
    if on_path:
        yield Path(on_path).resolve().parent


def _has_all(directory: Path, programs: Sequence[str]) -> bool:
    return all(os.access(directory / program, os.X_OK) for program in programs)


def _fetch(wanted: Wanted, root: Path) -> None:
    """Download and unpack packages beside the root, and rename: a part is never taken for all."""
    try:
        UNPACKED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=UNPACKED) as place:
            unpacked = Path(place) / "root"
            _run(wanted, place, "apt-get", "download", *wanted.packages)
            for package in sorted(Path(place).glob("*.deb")):
                _run(wanted, place, "dpkg", "-x", str(package), str(unpacked))
            unpacked.rename(root)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unavailable(wanted, str(error)) from None


def _run(wanted: Wanted, place: str, *command: str) -> None:
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or "it failed").splitlines()[-1]
        raise _unavailable(wanted, f"{' '.join(command[:2])}: {said}")


def _unavailable(wanted: Wanted, reason: str) -> UnavailableError:
    return UnavailableError(
        f"{', '.join(wanted.programs)} not found ({reason}); "
        f"install the packages {' '.join(wanted.packages)}, or put the programs on PATH"
    )
