"""A job that is a stream's: what may go on under its name, and what the log's record says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.errors import (
    ForgottenJobError,
    JobReusedError,
    LogFullError,
    OvertakenError,
    TooManyJobsError,
)
from quire.log.manifest import capacity, jobs
from quire.log.manifest.ages import Ages
from quire.log.manifest.jobs import Job, Limits, Memory, check_continues, fingerprint
from quire.log.manifest.manifest import LogManifest
from tests.log.parts import ingest, write_part
from tests.support.log_cluster import NAME, LogCluster, numbered, run

STREAM = Job("copy", 3, "one", "aaaa")


@pytest.mark.parametrize(
    ("found", "work"),
    [
        (None, STREAM),
        (STREAM, STREAM),
        (STREAM, STREAM._replace(sequence=4, content="bbbb")),
        (Job("copy", 3), STREAM._replace(sequence=4)),
        (Job("copy", 3), Job("copy", 2)),
        (Job("copy", 3), Job("copy", 3)),
    ],
)
def test_work_that_goes_on_or_is_repeated_is_taken(found: Job | None, work: Job) -> None:
    check_continues("log", found, work)


@pytest.mark.parametrize(
    ("found", "work", "reason"),
    [
        (STREAM, Job("copy", 0, "two", "bbbb"), "another query"),
        (STREAM, Job("copy", 3, "two", "aaaa"), "another query"),
        (STREAM, Job("copy", 9, "two", "bbbb"), "another query"),
        (STREAM, Job("copy", 9), "another query"),
        (STREAM, Job("copy", 2, "one", "aaaa"), "comes after batch 3"),
        (STREAM, Job("copy", 3, "one", "bbbb"), "with other records"),
        (Job("copy", 3), Job("copy", 3, "one", "aaaa"), "with other records"),
        (Job("copy", 3), Job("copy", 0, "one", "aaaa"), "comes after batch 3"),
    ],
)
def test_work_that_the_log_would_pass_over_is_refused(found: Job, work: Job, reason: str) -> None:
    with pytest.raises(JobReusedError, match=reason) as raised:
        check_continues("log", found, work)
    assert "start it with another job" in str(raised.value)


def test_a_record_has_what_a_stream_is_known_by() -> None:
    manifest = LogManifest("a", "id", 0).note_job(Job("load", 7)).note_job(STREAM)
    assert LogManifest.decode("p", manifest.encode()) == manifest
    assert b'["load", 7]' in manifest.encode().replace(b",", b", ").replace(b",  ", b", ")
    plain = replace(manifest, jobs=(Job("load", 7),))
    assert b'"copy"' not in plain.encode()


def test_a_batch_of_a_stream_is_ingested_once_and_another_one_is_refused() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            ingest = client.logs.ingest(NAME)
            for _ in range(2):
                part = await write_part(client, "copy", 0, 5)
                await ingest.ingest([part], STREAM, remember=True)
            part = await write_part(client, "copy", 5, 5)
            for wrong in (
                STREAM._replace(content="bbbb"),
                STREAM._replace(sequence=0),
                STREAM._replace(query="two", sequence=4),
            ):
                with pytest.raises(JobReusedError):
                    await ingest.ingest([part], wrong, remember=True)
            assert await client.payloads() == numbered(0, 5)
            await ingest.ingest([part], STREAM._replace(sequence=4, content="b"), remember=True)
            assert await client.payloads() == numbered(0, 10)

    run(main)


def remember(memory: Memory, work: Job, jobs_max: int = 3, hour: int = 0) -> Memory:
    return memory.remember(NAME, work, Limits(jobs_max, 7200.0), hour * 3_600_000)


def names(memory: Memory) -> list[str]:
    return [each.name for each in memory.jobs]


def batches(*numbers: int) -> list[str]:
    return [f"batch-{number}" for number in numbers]


def test_jobs_of_batches_are_forgotten_before_a_stream() -> None:
    memory = remember(Memory(), STREAM)
    for name in batches(0, 1, 2, 3):
        memory = remember(memory, Job(name, 0))
    assert names(memory) == ["copy", *batches(2, 3)]


def test_among_streams_the_longest_silent_one_is_forgotten() -> None:
    memory = Memory()
    for number in (0, 1, 2, 0, 3):
        memory = remember(memory, STREAM._replace(name=f"copy-{number}"))
    assert names(memory) == ["copy-2", "copy-0", "copy-3"]
    assert names(remember(memory, Job("batch", 0))) == ["copy-0", "copy-3", "batch"]


def test_a_forgotten_job_is_refused_and_a_new_one_is_not() -> None:
    memory = Memory()
    for number in range(5):
        memory = remember(memory, Job(f"batch-{number}", 0), hour=number // 4)
    assert [(each.hour, len(each.prints)) for each in memory.forgotten] == [(0, 8), (1, 8)]
    for name in batches(0, 1):
        with pytest.raises(ForgottenJobError, match="under a new job name"):
            memory.find(NAME, name)
    assert memory.find(NAME, "batch-5") is None
    assert memory.find(NAME, "batch-3") == Job("batch-3", 0)


def test_fingerprints_that_are_full_refuse_a_new_job_until_the_oldest_is_old_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "FORGOTTEN_MAX", 2)
    memory = Memory()
    for number in range(5):
        memory = remember(memory, Job(f"batch-{number}", 0), hour=10)
    with pytest.raises(TooManyJobsError, match="lower jobs_seconds"):
        remember(memory, Job("batch-5", 0), hour=11)
    known = remember(memory, Job("batch-2", 1), hour=11)
    assert names(known) == batches(3, 4, 2)
    later = remember(memory, Job("batch-5", 0), hour=12)
    assert names(later) == batches(3, 4, 5)
    assert later.find(NAME, "batch-0") is None, "its fingerprint is gone"
    assert [each.prints for each in later.forgotten] == [
        fingerprint("batch-1"),
        fingerprint("batch-2"),
    ]


def test_a_fingerprint_from_the_future_is_as_old_as_the_first_job_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs, "FORGOTTEN_MAX", 2)
    memory = Memory()
    for number in range(4):
        memory = remember(memory, Job(f"batch-{number}", 0), hour=1_000_000)
    memory = remember(memory, Job("batch-4", 0), hour=10)
    assert {each.hour for each in memory.forgotten} == {10}
    assert names(remember(memory, Job("batch-5", 0), hour=12)) == batches(3, 4, 5)


def test_fewer_jobs_may_be_remembered_than_before() -> None:
    memory = Memory()
    for name in batches(0, 1, 2):
        memory = remember(memory, Job(name, 0))
    less = remember(memory, Job("batch-1", 1), jobs_max=1)
    assert names(less) == batches(1)
    with pytest.raises(ForgottenJobError):
        less.find(NAME, "batch-2")


def test_a_record_has_the_forgotten_jobs_only_when_there_are_some() -> None:
    manifest = LogManifest("a", "id", 0).note_job(Job("one", 7))
    assert b"forgotten_jobs" not in manifest.encode()
    manifest = replace(manifest, ages=Ages(3_600_000)).note_job(Job("two", 7), Limits(1))
    assert LogManifest.decode("p", manifest.encode()) == manifest
    with pytest.raises(ForgottenJobError):
        manifest.check_job(Job("one", 8))
    with pytest.raises(ForgottenJobError):
        manifest.sequence_of("one")


def test_a_forgotten_job_that_is_repeated_adds_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            jobs = client.logs.ingest(NAME)
            await ingest(client, [await write_part(client, "one", 0, 5)], "one")
            await client.logs.set_options(NAME, {"jobs_max": "1"})
            await ingest(client, [await write_part(client, "two", 5, 5)], "two")
            again = await write_part(client, "one", 0, 5)
            with pytest.raises(ForgottenJobError):
                await jobs.has_done(Job("one", 0))
            for after in (None, 0):
                with pytest.raises(ForgottenJobError):
                    await jobs.ingest([again], Job("one", 0), remember=True, after=after)
            assert await client.payloads() == numbered(0, 10)
            with pytest.raises(OvertakenError):
                await jobs.ingest([], Job("two", 1), remember=True, after=7)

    run(main)


@pytest.mark.parametrize("records", [0, 5])
def test_a_new_job_counts_in_the_size_of_a_manifest(
    monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"0")
            await log.roll()  # from now on the manifest counts time
            part = await write_part(client, "job", 0, records)
            size = capacity.manifest_bytes(await client.manifest())
            space = capacity.PART_BYTES if records else 0
            monkeypatch.setattr(capacity, "GROWTH_BYTES_MAX", size + space + 50)
            with pytest.raises(LogFullError):
                await ingest(client, [part], "j" * 50)
            await log.append(b"the leader goes on")
            await log.close()
            await ingest(client, [part], "j")

    run(main)
