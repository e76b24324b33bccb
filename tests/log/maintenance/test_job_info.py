"""The jobs of a log as an operator sees them, and the parts of silent ones."""

from __future__ import annotations

import pytest

from quire.errors import NoSuchLedgerError
from quire.log.maintenance.job_info import JobInfo, PartInfo, is_silent
from quire.log.manifest.jobs import Job
from tests.log.parts import ingest, write_part
from tests.support.log_cluster import NAME, LogCluster, numbered, run

DAY = 24 * 3600.0


def test_a_job_is_silent_if_all_its_parts_are_old() -> None:
    parts = (PartInfo(1, 1000, 5), PartInfo(2, 2000, None))
    job = JobInfo("job", None, "", parts)
    assert job.last_part_ms == 2000
    assert is_silent(job, 2001)
    assert not is_silent(job, 2000), "its youngest part counts"
    assert not is_silent(JobInfo("job", 3, "", ()), 10**15), "nothing is left of it"


def test_jobs_are_shown_with_their_work_and_their_parts() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            jobs = client.logs.ingest(NAME)
            assert (await jobs.survey()).jobs == (), "the log does not exist"
            done = await write_part(client, "done", 0, 3)
            await jobs.ingest([done], Job("done", 7), remember=True)
            part = await write_part(client, "died", 10, 2)
            under_way = await write_part(client, "died", 12, 2, close=False)
            found = await jobs.survey()
            first, second = found.jobs
            assert (first.name, first.sequence, len(first.parts)) == ("died", None, 2)
            assert [each.ledger for each in first.parts] == [part, under_way]
            assert (first.parts[0].bytes or 0) > 0
            assert first.parts[1].bytes is None, "it is open"
            assert (second.name, second.sequence, second.parts) == ("done", 7, ())
            assert found.forgotten == 0

    run(main)


def test_only_the_parts_of_silent_jobs_go() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            jobs = client.logs.ingest(NAME)
            dead = [await write_part(client, "dead", 0, 3), await write_part(client, "dead", 3, 1)]
            revived = await write_part(client, "revived", 0, 3)
            cluster.now += DAY
            kept = await write_part(client, "revived", 3, 1)
            assert await jobs.drop_silent(2 * DAY) == []
            assert await jobs.drop_silent(DAY / 2) == dead
            assert await jobs.drop_silent(DAY / 2) == []
            assert sorted(await cluster.ledgers()) == sorted([revived, kept])
            with pytest.raises(NoSuchLedgerError):
                await ingest(client, [dead[0]], "dead")
            await ingest(client, [revived, kept], "revived")
            assert await client.payloads() == [*numbered(0, 3), *numbered(3, 1)]

    run(main)
