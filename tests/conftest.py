"""What holds for all tests: no example of hypothesis is judged by how long it took, signals reach
what they start even when the tests run in the background or under nohup, which ignore some, and
`async def test_…` runs as it stands (tests/support/async_tests.py).
"""

from __future__ import annotations

import inspect
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.support.log_cluster import LogCluster

TESTS: Final = Path(__file__).resolve().parent

MARKS: Final = {
    "spark": ("spark",),
    "java": ("acceptance", "tutorial", "cluster/test_disaster.py", "cluster/zookeeper"),
    "slow": (
        "acceptance",
        "bench",
        "cli/test_completion.py",
        "cli/test_exits.py",
        "cli/test_reading.py",
        "cli/test_streams.py",
        "cluster",
        "docs/test_pages.py",
        "election/test_expired_candidates.py",
        "judges",
        "ledger/test_recovery_fuzz.py",
        "ledger/test_shards.py",
        "log/cold",
        "log/leader/test_takeover_crashes.py",
        "metastore/test_sqlite.py",
        "netns",
        "repair",
        "sim",
        "spark",
        "spec/test_files.py",
        "spec/test_log_model.py",
        "spec/test_model.py",
        "storage/entries/test_read_path.py",
        "storage/entries/test_reserve.py",
        "storage/test_crash_images.py",
        "storage/test_crash_points.py",
        "storage/test_full_disk.py",
        "storage/test_fuzz.py",
        "storage/test_server.py",
        "storage/identity",
        "storage/maintenance/test_collection_process.py",
        "storage/maintenance/test_compaction.py",
        "storage/serving",
        "test_cancellation.py",
        "test_client.py",
        "test_language.py",
        "test_readme.py",
        "test_records.py",
        "testing/test_page.py",
        "testing/test_plugin.py",
        "tutorial",
        "wire/test_forks.py",
        "wire/test_fuzz.py",
        "wire/test_link_breaking.py",
        "wire/test_link_limits.py",
    ),
    "root": ("netns",),
}
"""Marks by place, so that no file can forget its own. A test of ZooKeeper is marked by its name."""

# As quire does it, for those tests that import gRPC before quire.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# The configuration file of the person who runs the tests is none of the tests' business.
os.environ["XDG_CONFIG_HOME"] = str(TESTS / "no-configuration")

settings.register_profile("quire", deadline=None, print_blob=True)
settings.load_profile("quire")

# What is ignored is inherited by every process that is started; what is handled is not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the place where it stands."""
    for item in items:
        place = item.path.relative_to(TESTS).as_posix() if TESTS in item.path.parents else ""
        for mark, places in MARKS.items():
            if any(place == each or place.startswith(f"{each}/") for each in places):
                item.add_marker(mark)
        subject = getattr(item, "callspec", None) and item.name.partition("[")[2]
        if place.startswith(("contract/", "election/")) and subject and "memory" not in subject:
            item.add_marker("slow")  # a port over a disk, a file or a connection
        if "zookeeper" in item.nodeid.lower():
            item.add_marker("java")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    from tests.support.async_tests import call

    call(pyfuncitem)
    return True


@pytest.fixture
def cluster() -> LogCluster:
    """Three bookies in memory, and clients of their logs; entered before an asynchronous test."""
    from tests.support.log_cluster import LogCluster

    return LogCluster()
