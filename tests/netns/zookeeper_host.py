"""A ZooKeeper that other hosts reach: `python -m tests.netns.zookeeper_host DIRECTORY PORT`.

Prints `serving`, and ends when its standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from quire.metastore.zookeeper_server import ZooKeeperServer


def main() -> None:
    server = ZooKeeperServer(
        Path(sys.argv[1]), sync=False, settings={"clientPortAddress": "0.0.0.0"}
    )
    server.assign(int(sys.argv[2]), None, ())
    with server:
        print("serving", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
