"""A bookie starts on a real file system that is full to the last block."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from quire.storage.identity.identity import FORMAT_BYTES_MIN

SECONDS_MAX = 300.0


def test_a_bookie_starts_on_a_file_system_without_a_free_block(tmp_path: Path) -> None:
    """The file system is mounted in a namespace of its own, and is gone with the process."""
    mount = f"mount -t tmpfs -o size={FORMAT_BYTES_MIN} none {tmp_path}"
    command = f"{mount} && exec {sys.executable} -m tests.netns.full_disk {tmp_path}"
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "start 4: " in done.stdout
