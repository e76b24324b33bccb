"""A bookie in the sandbox of its unit serves and restarts; what it must not do is denied."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import quire
from quire.cluster import LocalCluster
from quire.ledgers import Replication
from tests.support.command import environment

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "quire-bookie.service"
LAUNCH = ("-m", "tests.sandbox.launch", str(UNIT))

DENIED = """
import ctypes, json, mmap, os, socket
from pathlib import Path
def tried(work):
    try:
        work()
    except (OSError, ValueError, PermissionError):
        return "denied"
    return "done"
print(json.dumps({
    "write to /etc": tried(lambda: Path("/etc/quire-sandbox").touch()),
    "a packet socket": tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "a netlink socket": tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "memory to write and execute": tried(lambda: mmap.mmap(-1, 4096, prot=7)),
    "another user": tried(lambda: os.setuid(1)),
    "a higher priority": tried(lambda: os.nice(-5)),
    "a raw disk": tried(lambda: os.mknod("disk", 0o60600, os.makedev(8, 0))),
    "write to its directory": tried(lambda: Path(os.environ["MINE"], "x").touch()),
    "a device": tried(lambda: os.listdir("/dev/pts")),
}))
"""


def home() -> tempfile.TemporaryDirectory[str]:
    """A directory that a private /tmp does not hide."""
    return tempfile.TemporaryDirectory(prefix="quire-sandbox-", dir="/var/lib")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_a_bookie_serves_in_the_sandbox_and_after_a_restart(tls: bool) -> None:
    async def main(directory: Path) -> None:
        cluster = LocalCluster(directory, 3, tls=tls)
        cluster.program = (*LAUNCH, str(directory), "-m", "quire")
        async with cluster, quire.connect(cluster.store_uri, tls=cluster.tls) as client:
            async with await client.create_ledger(Replication(3, 3, 2)) as writer:
                for number in range(50):
                    await writer.append(b"%d" % number * 1000)
                await cluster.restart(0)
                await writer.append(b"after a restart")
            async with await client.open_ledger(writer.ledger) as reader:
                assert len([each async for each in reader.read(0)]) == 51

    with home() as directory:
        asyncio.run(main(Path(directory)))


def test_the_sandbox_denies_what_a_bookie_does_not_need() -> None:
    with home() as directory:
        done = subprocess.run(
            [sys.executable, *LAUNCH, directory, "-c", DENIED],
            env={**environment(), "MINE": directory},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("write to its directory") == "done"
    assert set(found.values()) == {"denied"}, found
    assert os.geteuid() == 0
