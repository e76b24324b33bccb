"""Jobs over an encrypted log, by the command line: with its key, without, and with a wrong one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import quire.cli.spark
import quire.sync
from quire import LogOptions
from quire.cli.root import main
from quire.errors import MissingKeyError
from quire.log.records.keyring import read_key_file

KEY = "get_json_object(cast(payload as string), '$.id')"
RECORDS = [b'{"id": %d, "n": %d}' % (n % 7, n) for n in range(60)]

NO_KEY = "is encrypted with key 'main': no keyring was given"
NOT_THE_KEY = "is encrypted with key 'main': it is another key, or the batch was changed or moved"


@dataclass
class Sealed:
    """A cluster with the encrypted log `sealed`, and key files."""

    cluster: str
    directory: Path

    def key(self, name: str) -> str:
        return str(self.directory / name)

    def run(self, *arguments: str, key: str | None = None) -> Result:
        given = ["--store", self.cluster, "--json", "spark", *arguments]
        return CliRunner().invoke(main, given + (["--key-file", self.key(key)] if key else []))

    def payloads(self, log: str) -> list[bytes]:
        keyring = read_key_file(self.key("right"))
        with quire.sync.connect(self.cluster) as client:
            with pytest.raises(MissingKeyError):
                next(client.read_log(log))
            return [record.payload for record in client.read_log(log, keyring=keyring)]

    def known(self) -> tuple[list[str], list[int]]:
        with quire.sync.connect(self.cluster) as client:
            return client.list_logs(), client.list_ledgers()


@pytest.fixture(scope="module")
def sealed(
    spark: SparkSession, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sealed]:
    """One log for all tests of this module; commands use the session of all tests."""

    @contextlib.contextmanager
    def session(name: str, master: str) -> Iterator[SparkSession]:
        yield spark

    made = Sealed(cluster, tmp_path_factory.mktemp("keys"))
    right, wrong = os.urandom(32).hex(), os.urandom(32).hex()
    Path(made.key("right")).write_text(f"main {right}\n")
    Path(made.key("wrong")).write_text(f"main {wrong}\n")
    Path(made.key("another")).write_text(f"other {wrong}\n")
    keyring = read_key_file(made.key("right"))
    with (
        quire.sync.connect(cluster) as client,
        client.open_log("sealed", LogOptions(roll_entries=10, keyring=keyring)) as leader,
    ):
        for start in range(0, len(RECORDS), 3):
            leader.append_many(RECORDS[start : start + 3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quire.cli.spark, "_session", session)
        yield made


@pytest.mark.parametrize(
    ("key", "code", "message"),
    [
        (None, 2, NO_KEY),
        ("another", 2, "is encrypted with key 'main': the keyring has no such key"),
        ("absent", 2, "absent cannot be read"),
        ("wrong", 9, f"segment 1: log 'sealed' at 1.0.0 {NOT_THE_KEY}"),
        ("right", 0, ""),
    ],
)
def test_audit(sealed: Sealed, key: str | None, code: int, message: str) -> None:
    done = sealed.run("audit", "sealed", key=key)
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 1
    if code == 0:
        (found,) = [json.loads(line) for line in done.stdout.splitlines()]
        assert sum(each["records"] for each in found["segments"]) == len(RECORDS)
        assert found["problems"] == []


@pytest.mark.parametrize(
    ("job", "key", "message"),
    [
        (["replay"], None, NO_KEY),
        (["replay"], "wrong", NOT_THE_KEY),
        (["replay"], "absent", "absent cannot be read"),
        (["compact", "--key", KEY], None, NO_KEY),
        (["compact", "--key", KEY], "wrong", NOT_THE_KEY),
    ],
)
def test_a_copy_that_lacks_the_key_copies_nothing(
    sealed: Sealed, job: list[str], key: str | None, message: str
) -> None:
    before = sealed.known()
    done = sealed.run(job[0], "sealed", "--to", "nowhere", *job[1:], key=key)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert message in line
    assert sealed.known() == before


def test_copies_are_encrypted_as_the_log_is(sealed: Sealed) -> None:
    done = sealed.run("replay", "sealed", "--to", "sealed-copy", key="right")
    assert done.exit_code == 0, done.output
    assert sealed.payloads("sealed-copy") == RECORDS
    again = ["--store", sealed.cluster, "spark", "replay", "sealed", "--to", "sealed-copy"]
    said = CliRunner().invoke(main, again).stdout
    assert said == f"sealed-copy: nothing is new in the source since offset {len(RECORDS)}\n"
    done = sealed.run("compact", "sealed", "--to", "sealed-small", "--key", KEY, key="right")
    assert done.exit_code == 0, done.output
    assert sealed.payloads("sealed-small") == RECORDS[-7:]


def test_offload_needs_no_key_and_opens_nothing(sealed: Sealed, spark: SparkSession) -> None:
    target = sealed.directory / "cold"
    done = sealed.run("offload", "sealed", "--to", str(target))
    assert done.exit_code == 0, done.output
    moved = json.loads(done.stdout)
    assert moved["records"] == len(RECORDS)
    assert sealed.payloads("sealed") == RECORDS
    assert b'"id"' not in b"".join(each.read_bytes() for each in target.rglob("*.parquet"))
    options = {"cluster": sealed.cluster, "log": "sealed", "keyFile": sealed.key("right")}
    rows = spark.read.format("quire").options(**options).load().orderBy("offset").collect()
    assert [bytes(row.payload) for row in rows] == RECORDS
