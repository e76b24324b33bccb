"""Replay and compact: a log's records, written again into a log of this or another cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.window import Window

import quire.sync
from quire.errors import BehindError, InvalidRequestError, NoSuchLogError
from quire.spark.ending import end_of
from quire.spark.errors import typed_errors
from quire.spark.options import GIVEN_COLUMNS, LOG_COLUMNS, is_pattern
from quire.spark.patience import patiently

_COPIED: Final = ",".join(("offset", "payload", *GIVEN_COLUMNS))
_ALL: Final = ",".join((*LOG_COLUMNS, *GIVEN_COLUMNS))


@dataclass(frozen=True, slots=True)
class Place:
    """A log in a cluster."""

    cluster: str
    log: str
    password: str = field(default="", repr=False)
    key_file: str = ""

    def options(self) -> dict[str, str]:
        """The options that Spark finds it by."""
        given = {"cluster": self.cluster, "log": self.log}
        secrets = {"password": self.password, "keyFile": self.key_file}
        return given | {name: value for name, value in secrets.items() if value}


@dataclass(frozen=True, slots=True)
class Copied:
    """The offsets of the source that were copied: from `first`, before `end`."""

    first: int
    end: int


def replay_log(
    spark: SparkSession,
    source: Place,
    target: Place,
    job: str | None = None,
    *,
    skip_trimmed: bool = False,
) -> Copied:
    """Append to `target` every record of `source` that an earlier replay did not, in order.

    All or nothing. The target remembers the offset reached under `job`: the next replay continues
    from there, and a replay with an unknown outcome may be repeated. Without `job`, a source that
    was deleted and recreated counts as a new source. Record offsets and times are the target's own.

    Raises:
        OvertakenError: another replay of the job was quicker; nothing was added.
        PositionTrimmedError: the source was trimmed before it was replayed, unless `skip_trimmed`.
        BehindError: the source ends before the offset reached.
        NoSuchLogError, InvalidRequestError, DecryptionError: and other errors of reading and
            writing.
    """
    log_id, end = _end(source)
    _check_pair(source, target, log_id)
    job = job or f"replay {source.log} {log_id[:12]}"
    first = _done(target, job)
    if end < first:
        raise BehindError(source.log, first, end)
    if first < end:
        loss = "false" if skip_trimmed else "true"
        options = {"fromOffset": str(first), "failOnDataLoss": loss}
        frame = patiently(_load, spark, source, end, options | {"columns": _COPIED})
        _save(frame.drop("offset"), target, job=job, sequence=end, after=first)
    return Copied(first, end)


def compact_log(
    spark: SparkSession, source: Place, target: Place, key: str, job: str | None = None
) -> Copied:
    """Append to `target` the last record of every key in `source`, in the order of their offsets.

    `key` is a SQL expression over the columns of the log: `key` for the records' own keys, or as
    `get_json_object(cast(payload as string), '$.id')`; records with a null key are all kept.
    Repeated for the same source, it adds nothing, unless the source has grown. Raises as
    `replay_log`.
    """
    log_id, end = _end(source)
    _check_pair(source, target, log_id)
    job = job or f"compact {source.log} {log_id[:12]}"
    frame = patiently(_load, spark, source, end, {"columns": _ALL})
    try:
        kept = _last_of_each(frame, key)
    except AnalysisException as error:
        reason = next(filter(None, str(error).splitlines()))
        raise InvalidRequestError(
            f"key {key!r} cannot be computed from a record: {reason}"
        ) from error
    columns = kept.orderBy("offset").select("payload", *GIVEN_COLUMNS)
    _save(columns, target, job=job, sequence=end)
    return Copied(0, end)


def _last_of_each(frame: DataFrame, key: str) -> DataFrame:
    frame = frame.withColumn("kept_by", sql.expr(key))
    newest = Window.partitionBy("kept_by").orderBy(sql.desc("offset"))
    aged = frame.withColumn("age", sql.row_number().over(newest))
    return aged.where("age = 1 or kept_by is null")


def _check_pair(source: Place, target: Place, log_id: str) -> None:
    """Raise `InvalidRequestError` for a source that Spark's options would not find by its name,
    and for a target that is the source, however its cluster is spelled.
    """
    if is_pattern(source.log):
        raise InvalidRequestError(
            f"log {source.log!r} cannot be read by Spark: its name is a pattern"
        )
    with quire.sync.connect(target.cluster) as client, suppress(NoSuchLogError):
        if client._logs.describe(target.log).log_id == log_id:
            raise InvalidRequestError(f"log {source.log!r} cannot be copied into itself")


def _load(spark: SparkSession, place: Place, end: int, options: Mapping[str, str]) -> DataFrame:
    """Read a log up to an offset, all of it: records after the plan would be lost, since the target
    remembers the offset. Raises `BehindError` when it is not known to be confirmed any more.
    """
    reader = spark.read.format("quire").options(**place.options(), **options, toOffset=end)
    frame = reader.load()
    with typed_errors():
        last = frame.select("offset").tail(1)  # which plans the frame, and reads its last range
    known = last[0].offset + 1 if last else _end(place)[1]
    if known < end:
        raise BehindError(place.log, end, known)
    return frame


def _save(frame: DataFrame, place: Place, **options: str | int) -> None:
    writer = frame.write.format("quire").mode("append")
    with typed_errors():
        writer.options(**place.options(), **options).save()


def _end(place: Place) -> tuple[str, int]:
    """A log's identity, and the offset after its last readable record."""
    with quire.sync.connect(place.cluster) as client:
        log_id = client._logs.describe(place.log).log_id
        return log_id, end_of(client, place.log, place.password.encode())


def _done(place: Place, job: str) -> int:
    """The offset that a job has reached in its target."""
    with quire.sync.connect(place.cluster) as client:
        try:
            return client._logs.describe(place.log).sequence_of(job)
        except NoSuchLogError:
            return 0
