"""Whether a batch read can begin where its options say.

A trimmed log is read from its first remaining record. But options that name a place count on the
records after it: if those were trimmed, silent continuation would lose records.
"""

from __future__ import annotations

from quire.errors import PositionTrimmedError
from quire.log.manifest.manifest import LogManifest
from quire.log.reading.bounds import Bounds
from quire.log.records.position import BEGINNING
from quire.spark.clients import worker_keyring
from quire.spark.ending import end_of
from quire.spark.options import ReadOptions
from quire.sync import SyncClient


def check_beginning(client: SyncClient, log: str, options: ReadOptions) -> None:
    """Raise `PositionTrimmedError`, naming the option, when its place in the log was trimmed."""
    first, offset = options.bounds.first, options.bounds.first_offset
    if not options.fail_on_data_loss or (first == BEGINNING and offset == 0):
        return
    manifest = client._logs.describe(log)
    if manifest.trimmed_to == BEGINNING:
        return
    if BEGINNING < first < manifest.trimmed_to:
        raise _error(manifest, f"{first} (option fromPosition)")
    if offset and _is_trimmed(client, log, offset, options):
        raise _error(manifest, f"offset {offset} (option fromOffset)")


def _is_trimmed(client: SyncClient, log: str, offset: int, options: ReadOptions) -> bool:
    """Whether the log had a record of this offset and has it no more."""
    just = Bounds(first_offset=offset, end_offset=offset + 1)
    for span in client.snapshot_log(log, password=options.password, bounds=just):
        keyring = worker_keyring(options.key_file)
        slices = client.read_span(span, password=options.password, keyring=keyring)
        return next(iter(slices), None) is None
    return offset < end_of(client, log, options.password)


def _error(manifest: LogManifest, place: str) -> PositionTrimmedError:
    left = f"{manifest.first_position} (or give failOnDataLoss=false)"
    return PositionTrimmedError(manifest.name, place, left)
