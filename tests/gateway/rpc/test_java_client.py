"""A client in Java, generated from the file that a gateway hands out, compiled and run here."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from quire.cluster.zookeeper.java import find_java
from quire.gateway.app import PROTO
from quire.testing.cluster import MemoryCluster
from tests.gateway.rpc.serving import serving
from tests.interop.jars import install_grpc

pytestmark = pytest.mark.real_time

PROGRAM = Path(__file__).with_name("JavaClient.java")
COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"
SECONDS_MAX = 100.0

SAID = """\
appended 2 at 0
appended 1 at 2
end
appended 1 at 2
appended 1 at 3
end
read 0 anna a
read 1 anna b
read 2 anna c
read 3 anna d
error FAILED_PRECONDITION offset_conflict
error INVALID_ARGUMENT invalid_request
error NOT_FOUND not_found
"""
"""The repeated batch has the offset of its first writing, and is read once."""


def run(*command: object) -> str:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def java(class_path: Sequence[object], *arguments: object) -> str:
    quick = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return run(find_java(), *quick, "-cp", ":".join(map(str, class_path)), *arguments)


def build(scratch: Path) -> tuple[Path, Path]:
    """Return the directories of the program's classes and of the jars that it needs."""
    jars, programs = install_grpc()
    sources, classes = scratch / "sources", scratch / "classes"
    sources.mkdir()
    run(
        *(programs / "protoc", f"--proto_path={PROTO.parent}", f"--java_out={sources}"),
        f"--plugin=protoc-gen-grpc-java={programs / 'protoc-gen-grpc-java'}",
        *(f"--grpc-java_out=@generated=omit:{sources}", PROTO.name),
    )
    files = [PROGRAM, *sorted(sources.rglob("*.java"))]
    assert len(files) > 20, "the generator wrote a class for each message"
    library = ":".join(str(each) for each in sorted(jars.glob("*.jar")))
    options = ("-17", "-nowarn", "-proc:none", "-classpath", library, "-d", classes)
    java([f"{jars}/*"], COMPILER, *options, *files)
    return classes, jars


async def test_java_appends_follows_and_tells_errors_apart(tmp_path: Path) -> None:
    classes, jars = await asyncio.to_thread(build, tmp_path)
    async with serving(MemoryCluster()) as served:
        command = ([classes, f"{jars}/*"], "JavaClient", served.address)
        assert await asyncio.to_thread(java, *command) == SAID
        assert await served.payloads() == [b"a", b"b", b"c", b"d"]
