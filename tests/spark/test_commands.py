"""`quire spark` as a user runs it: a process of its own, with a Spark session of its own."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import quire.sync
from tests.support import command
from tests.support.java import BRISK, java_home


@pytest.mark.timeout(400)
def test_audit_prints_counts_and_checksums(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path)))
    for name, value in {"SPARK_LOCAL_IP": "127.0.0.1", **BRISK}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET", raising=False)
    with quire.sync.connect(cluster) as client, client.open_log("cli") as log:
        log.append_many([b"one", b"two"])
        log.append(b"three")
    arguments = ("spark", "audit", "cli", "--master", "local[1]", "--json")
    done = command.quire(*arguments, store=cluster, seconds_max=300.0)  # a session of its own
    assert done.code == 0, done.err
    (found,) = done.json
    (segment,) = found["segments"]
    assert found["problems"] == []
    assert (segment["entries"], segment["records"], segment["bytes"]) == (2, 3, 11)
    assert segment["crc32"] == [f"{zlib.crc32(b'onetwothree'):08x}"]
