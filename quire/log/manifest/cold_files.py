"""Cold segments: the manifest's row for a segment's records in a file outside the bookies.

A *tier* is a directory of one log's files, by URI; a file holds one whole segment. A manifest that
names a tier is written as version 2, which a program that knows nothing of cold segments refuses.

Pure: no clock and no I/O. The file itself is in `cold_file`, how it comes to be in `offload`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from quire.entry import LedgerId

SUFFIX: Final = ".parquet"

ATTEMPTS: Final = "_attempts"
"""The directory of a tier for files that no manifest names yet. Spark, as Hive, reads no directory
whose name begins with `_`."""

_LOG_ID: Final = re.compile(r"[0-9a-f]{32}")
_FILE: Final = re.compile(r"[0-9]{8,19}-[0-9]{1,19}-[0-9a-f]{8}\.parquet")
_PROBE: Final = re.compile(r"probe-[0-9a-f]{8}")


class ColdFile(NamedTuple):
    """A file that holds a sealed segment. Once a manifest names one it never names another."""

    tier: str
    """URI of the directory."""
    name: str
    size: int
    """Bytes of the file."""
    checksum: int
    """CRC32C of its footer, which has the sums of all other parts (checksums.py)."""
    alone: bool = False
    """Whether the segment's ledger has left the log, so that this is the only copy."""

    @property
    def uri(self) -> str:
        """Where the file lies from when a manifest names it, or a little later."""
        return join(self.tier, self.name)

    @property
    def attempt_uri(self) -> str:
        """Where the file is written, and lies until a manifest names it."""
        return attempt_of(self.uri)


def as_arrow(uri: str) -> str:
    """Return a URI as Arrow writes it: Hadoop and Spark call the scheme of S3 `s3a`. A manifest
    has one name for a place, so that the same files are never taken for two tiers.
    """
    scheme, mark, rest = uri.partition("://")
    return f"s3://{rest}" if mark and scheme.lower() == "s3a" else uri


def tier_of(target: str, log_id: str) -> str:
    """Return the tier of a log below a directory that many logs may share."""
    return join(target, log_id)


def log_id_of(uri: str) -> str:
    """Return the id of the log that owns a file of a tier, as its directory says."""
    return uri.partition("?")[0].split("/")[-2]


def join(uri: str, name: str) -> str:
    """Return the URI of something in a directory: before the `?` of its options, if it has any."""
    directory, mark, options = uri.partition("?")
    return f"{directory.rstrip('/')}/{name}{mark}{options}"


def attempt_of(uri: str) -> str:
    """Return where a file of a tier lies as long as it is an attempt."""
    path, mark, options = uri.partition("?")
    directory, _, name = path.rpartition("/")
    return f"{directory}/{ATTEMPTS}/{name}{mark}{options}"


def file_name(number: int, ledger: LedgerId, token: int) -> str:
    """Return the name of an attempt's file; `token` keeps attempts apart."""
    return f"{number:08d}-{ledger}-{token:08x}{SUFFIX}"


def segment_of(name: str) -> int | None:
    """Return the segment of a file of a tier, None if the name has another form."""
    return int(name.partition("-")[0]) if _FILE.fullmatch(name) else None


def is_probe(name: str) -> bool:
    """Whether a file was written to see whether a tier takes files."""
    return _PROBE.fullmatch(name) is not None


def is_ours(path: str, log_id: str) -> bool:
    """Whether the path, as a file system is given it, can be a file of this log.

    The directory is named by the log's id, 32 random hexadecimal digits, and the file as
    `file_name` does. A record that names anything else was not written by this program.
    Source: docs/decisions/0024-tiers.md.
    """
    return _split(path)[0] == log_id and is_any_logs(path)


def is_any_logs(path: str) -> bool:
    """Whether the path, as a file system is given it, can be a file of some log."""
    directory, name, is_attempt = _split(path)
    is_file = _FILE.fullmatch(name) is not None or (is_attempt and is_probe(name))
    return is_file and _LOG_ID.fullmatch(directory) is not None


def _split(path: str) -> tuple[str, str, bool]:
    """The directory of a tier, the name of a file, and whether an attempt has it."""
    above, _, name = path.rpartition("/")
    above, _, directory = above.rpartition("/")
    if directory != ATTEMPTS:
        return directory, name, False
    return above.rpartition("/")[2], name, True


def to_row(cold: ColdFile, tiers: Sequence[str]) -> list[Any]:
    """The file as a manifest's record holds it: tiers are named once."""
    return [tiers.index(cold.tier), *cold[1:]]


def from_row(row: Sequence[Any], tiers: Sequence[str]) -> ColdFile:
    """The file a row stands for. Raises ValueError if the tier is not listed."""
    tier, *rest = row
    if not 0 <= tier < len(tiers):
        raise ValueError(f"tier {tier} of {len(tiers)}")
    return ColdFile(tiers[tier], *rest)
