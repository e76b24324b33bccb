"""A client in Go, generated from the file that a gateway hands out, compiled and run here."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quire.gateway.app import PROTO
from quire.testing.cluster import MemoryCluster
from tests.gateway.rpc.serving import serving
from tests.interop.jars import install_grpc

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("go")
PACKAGE = "quire.invalid/client"
GENERATORS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)

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
error FailedPrecondition [offset_conflict]
error InvalidArgument [invalid_request]
error NotFound [not_found]
"""
"""The repeated batch has the offset of its first writing, and is read once."""


def run(*command: object, at: Path) -> str:
    found = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])
    program = shutil.which(str(command[0]), path=found)
    assert program is not None, f"{command[0]} is missing: `make test` installs Go"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(at)}  # Go writes counters there
    arguments = [program, *map(str, command[1:])]
    done = subprocess.run(
        arguments, cwd=at, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(scratch: Path, main: Path = PROGRAM / "main.go") -> Path:
    """Return the program of a `main.go`, with the client that is generated for it."""
    _, programs = install_grpc()
    source = scratch / "go"
    shutil.copytree(PROGRAM, source)
    shutil.copyfile(main, source / "main.go")
    plugins = []
    for each in GENERATORS:
        name = each.rpartition("/")[2]
        run("go", "build", "-o", scratch / name, each, at=source)
        plugins.append(f"--plugin={name}={scratch / name}")
    places = f"M{PROTO.name}={PACKAGE}/gatewayv1,module={PACKAGE}"
    run(
        *(programs / "protoc", f"--proto_path={PROTO.parent}", *plugins),
        *("--go_out=.", f"--go_opt={places}", "--go-grpc_out=.", f"--go-grpc_opt={places}"),
        PROTO.name,
        at=source,
    )
    run("go", "build", "-o", scratch / "client", ".", at=source)
    return scratch / "client"


async def test_go_appends_follows_and_tells_errors_apart(tmp_path: Path) -> None:
    client = await asyncio.to_thread(build, tmp_path)
    async with serving(MemoryCluster()) as served:
        assert await asyncio.to_thread(run, client, served.address, at=tmp_path) == SAID
        assert await served.payloads() == [b"a", b"b", b"c", b"d"]
