"""A job that is a stream's: what may go on under its name, and what the log's record says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.log.errors import JobReusedError
from quire.log.job import JOBS_MAX, Job, check_continues, remember
from quire.log.manifest import LogManifest
from tests.log.parts import write_part
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


def test_a_batch_of_a_stream_is_adopted_once_and_another_one_is_refused() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            adoption = client.logs.adoption(NAME)
            for _ in range(2):
                part = await write_part(client, "copy", 0, 5)
                await adoption.adopt([part], STREAM, remember=True)
            part = await write_part(client, "copy", 5, 5)
            for wrong in (
                STREAM._replace(content="bbbb"),
                STREAM._replace(sequence=0),
                STREAM._replace(query="two", sequence=4),
            ):
                with pytest.raises(JobReusedError):
                    await adoption.adopt([part], wrong, remember=True)
            assert await client.payloads() == numbered(0, 5)
            await adoption.adopt([part], STREAM._replace(sequence=4, content="b"), remember=True)
            assert await client.payloads() == numbered(0, 10)

    run(main)


def test_jobs_of_batches_are_forgotten_before_a_stream() -> None:
    jobs: tuple[Job, ...] = remember((), STREAM)
    for number in range(JOBS_MAX + 1):
        jobs = remember(jobs, Job(f"batch-{number}", 0))
    assert len(jobs) == JOBS_MAX
    assert jobs[0] == STREAM
    assert [jobs[1].name, jobs[-1].name] == ["batch-2", f"batch-{JOBS_MAX}"]


def test_among_streams_the_longest_silent_one_is_forgotten() -> None:
    streams = tuple(STREAM._replace(name=f"copy-{number}") for number in range(JOBS_MAX))
    again = remember(streams, streams[0]._replace(sequence=4))
    assert len(again) == JOBS_MAX
    assert [again[0].name, again[-1].sequence] == ["copy-1", 4]
    beside = remember(again, Job("batch", 0))
    assert [beside[0].name, beside[-1].name] == ["copy-2", "batch"]
    without = remember(beside, STREAM)
    assert [without[0].name, without[-2].name, without[-1]] == ["copy-2", "copy-0", STREAM]
