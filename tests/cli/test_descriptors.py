"""A bookie's process takes as many descriptors as it may have, whatever its shell began with."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
from quire.cli.serving import allow_descriptors
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
hard = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
allow_descriptors()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""


def test_the_limit_is_raised_to_what_the_system_allows() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.strip() == "True"
