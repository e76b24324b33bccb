"""A ZooKeeper that other hosts reach.

    python -m tests.netns.zookeeper_host DIRECTORY PORT          alone
    python -m tests.netns.zookeeper_host DIRECTORY PORT NUMBER   as its DIRECTORY/zoo.cfg says

Prints `serving`, and ends when its standard input does.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from quire.cluster.zookeeper.java import find_jars, find_java
from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.metastore.zookeeper_probe import probe

QUORUM_PEER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def alone(directory: Path, port: int) -> None:
    server = ZooKeeperServer(directory, sync=False, settings={"clientPortAddress": "0.0.0.0"})
    server.assign(port, None, ())
    with server:
        print("serving", flush=True)
        sys.stdin.read()


def one_of_many(directory: Path, port: int, number: str) -> None:
    """Run a server as deploy/systemd/zookeeper.service does."""
    (directory / "myid").write_text(number)
    class_path = ":".join(map(str, find_jars()))
    config = str(directory / "zoo.cfg")
    with (directory / "zookeeper.out").open("ab") as output:
        server = subprocess.Popen(
            [str(find_java()), "-Xmx128m", "-cp", class_path, QUORUM_PEER, config],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        while probe("127.0.0.1", port) is None and server.poll() is None:
            time.sleep(0.1)
        print("serving", flush=True)
        sys.stdin.read()
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        alone(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        one_of_many(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
