"""The systems whose logs format `bookkeeper` reads, by the option that names their logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quire.spark.bookkeeper.dlogs import DistributedLogs
from quire.spark.bookkeeper.system import ForeignSystem
from quire.spark.bookkeeper.topics import Topics

SYSTEMS: Final[Mapping[str, ForeignSystem]] = {
    "topic": Topics(),
    "dlog": DistributedLogs(),
}
