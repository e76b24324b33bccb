"""Stretched passwords: what a record may ask for, and one computation for all ledgers of a salt."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

import pytest

from quire.entry import access_key, is_checked, key_check
from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    InvalidRequestError,
    UnauthorizedError,
)
from quire.ledger import stretching
from quire.ledger.stretch import LOG2_COST_MIN, KeyStretch
from quire.ledger.stretching import Stretcher
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, ledger_path
from quire.metastore.record import decode_record, encode_record
from tests.golden.metadata import STRETCHED_LEDGER
from tests.support.log_cluster import LogCluster, run
from tests.support.memory_cluster import MemoryCluster

CHEAP = KeyStretch(b"salt of 16 bytes", LOG2_COST_MIN, 1)


def test_the_secret_is_scrypt_as_others_compute_it() -> None:
    assert CHEAP.secret(b"secret") == hashlib.scrypt(
        b"secret", salt=b"salt of 16 bytes", n=16384, r=8, p=1, dklen=32
    )
    assert str(CHEAP) == "$scrypt$ln=14,r=8,p=1$c2FsdCBvZiAxNiBieXRlcw"
    assert KeyStretch.parse(str(CHEAP)) == CHEAP


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("$scrypt$ln=30,r=8,p=1$c2FsdCBvZiAxNiBieXRlcw", r"2\^30.*2\^17"),
        ("$scrypt$ln=1,r=8,p=1$c2FsdCBvZiAxNiBieXRlcw", r"2\^1:"),
        ("$scrypt$ln=15,r=8,p=99$c2FsdCBvZiAxNiBieXRlcw", "p = 99"),
        ("$scrypt$ln=15,r=8,p=0$c2FsdCBvZiAxNiBieXRlcw", "p = 0"),
        ("$scrypt$ln=15,r=64,p=1$c2FsdCBvZiAxNiBieXRlcw", "is not"),
        ("$scrypt$ln=999999999,r=8,p=1$c2FsdCBvZiAxNiBieXRlcw", "is not"),
        ("$argon2id$ln=15,r=8,p=1$c2FsdCBvZiAxNiBieXRlcw", "is not"),
        ("$scrypt$ln=15,r=8,p=1$YQ", "a salt of 1 bytes"),
        ("$scrypt$ln=15,r=8,p=1$" + "YWFh" * 22, "a salt of 66 bytes"),
        ("$scrypt$ln=15,r=8,p=1$c2FsdCBvZiAxNiBieXRlc", "base64"),
        ("$scrypt$ln=015,r=8,p=1$c2FsdCBvZiAxNiBieXRlcw", "is not"),
        ("$scrypt$ln=15,r=08,p=1$c2FsdCBvZiAxNiBieXRlcw", "is not written"),
        ("", "is not"),
    ],
)
@pytest.mark.slow
async def test_a_record_that_asks_for_too_much_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        KeyStretch.parse(text)
    async with MemoryCluster(3) as cluster:
        writer = await cluster.catalog.create(password=b"secret")
        path = ledger_path(writer.ledger)
        found = await cluster.store.get(path)
        version, body = decode_record(path, "ledger", found.value)
        changed = encode_record("ledger", version, {**body, "stretch": text})
        await cluster.store.put(path, changed, found.version)
        with pytest.raises(CorruptRecordError, match=complaint):
            await cluster.client().open(writer.ledger, password=b"secret")


async def test_keys_are_of_the_secret_and_a_wrong_password_is_refused() -> None:
    async with MemoryCluster(3) as cluster:
        writer = await cluster.catalog.create(password=b"secret")
        await writer.append(b"first")
        await writer.close()
        found = await cluster.catalog.metadata(writer.ledger)
        assert found.stretch is not None
        secret = found.stretch.secret(b"secret")
        assert found.key_check == key_check(access_key(secret))
        assert not is_checked(access_key(b"secret"), found.key_check)
        other = cluster.client()
        reader = await other.open(writer.ledger, password=b"secret")
        assert [each.payload async for each in reader.read()] == [b"first"]
        for wrong in (b"", b"guessed", secret):
            with pytest.raises(UnauthorizedError):
                await other.open(writer.ledger, password=wrong)
        open_to_all = await cluster.catalog.create()
        assert (await cluster.catalog.metadata(open_to_all.ledger)).stretch is None


async def test_a_cluster_of_older_programs_gets_plain_passwords() -> None:
    async with MemoryCluster(3) as cluster:
        await cluster.store.create(CLUSTER, Cluster("c", level=1).encode())
        old = await cluster.catalog.create(password=b"secret")
        found = await cluster.catalog.metadata(old.ledger)
        assert (found.stretch, found.key_check) == (None, key_check(access_key(b"secret")))
        cluster_record = await cluster.store.get(CLUSTER)
        await cluster.store.put(CLUSTER, Cluster("c", level=2).encode(), cluster_record.version)
        await old.append(b"of before")
        await old.close()
        reader = await cluster.client().open(old.ledger, password=b"secret")
        assert [each.payload async for each in reader.read()] == [b"of before"]
        new = await cluster.catalog.create(password=b"secret")
        assert (await cluster.catalog.metadata(new.ledger)).stretch is not None


def test_a_stretched_password_has_a_check() -> None:
    """Without one a reader would send the key of a record's own making to the bookies."""
    with pytest.raises(InvalidRequestError, match="nothing to check it with"):
        replace(STRETCHED_LEDGER, key_check="")


def test_all_segments_of_a_log_cost_a_client_one_computation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[bytes] = []
    secret = KeyStretch.secret

    def counted(how: KeyStretch, password: bytes) -> bytes:
        computed.append(password)
        return secret(how, password)

    monkeypatch.setattr(KeyStretch, "secret", counted)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(password=b"secret")
            for _ in range(3):
                await log.append(b"x")
                await log.roll()
            await log.close()
            assert len(await client.read(password=b"secret")) == 3
            salts = {
                (await client.catalog.metadata(each)).stretch for each in await cluster.ledgers()
            }
            assert [each.salt for each in salts if each] == [
                (await client.manifest()).log_id.encode()
            ]
            assert computed == [b"secret"]
            other = cluster.new_client()
            await asyncio.gather(*(other.read(password=b"secret") for _ in range(4)))
            assert computed == [b"secret"] * 2
            with pytest.raises(UnauthorizedError):
                await other.read(password=b"guessed")
            assert computed == [b"secret"] * 2 + [b"guessed"]

    run(main)


@pytest.mark.real_time
async def test_the_loop_goes_on_while_a_secret_is_computed() -> None:
    ticks, stretcher = 0, Stretcher()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    assert await stretcher(b"secret", CHEAP) == CHEAP.secret(b"secret")
    before = ticks
    assert before > 10
    await stretcher(b"secret", CHEAP)
    assert ticks == before, "it is known"
    ticking.cancel()


async def test_a_client_forgets_secrets_that_it_does_not_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stretching, "KNOWN_MAX", 2)
    stretcher = Stretcher()
    for password in (b"a", b"b", b"a", b"c"):
        await stretcher(password, CHEAP)
    assert [password for password, _ in stretcher._known] == [b"a", b"c"]
