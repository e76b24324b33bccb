"""What holds for all tests: no example of hypothesis is judged by how long it took, signals reach
what they start even when the tests run in the background or under nohup, which ignore some, and
`async def test_…` runs as it stands (tests/support/async_tests.py).
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.support.log_cluster import LogCluster
    from tests.support.schedule import Schedule

TESTS: Final = Path(__file__).resolve().parent

NO_CONFIGURATION: Final = "no-configuration"

FIRST: Final = (
    "spark",
    "sim/test_sim.py",
    "sim/test_reach.py",
    "cluster/test_disaster.py",
    "docs/test_runbooks.py",
    "cluster",
    "acceptance",
    "tutorial",
    "sim",
    "docs/test_pages.py",
    "docs/test_integrations.py",
    "gateway/kafka",
    "gateway/soak/test_soak.py",
    "alerts/test_drills.py",
    "drills",
    "metastore",
    "bookkeeper/serving/test_tls_with_java.py",
    "bookkeeper/test_with_java.py",
    "sql",
)
"""Places with long tests, the longest first. Workers take files in this order: a long file that
began last would leave the other workers idle.
"""

MARKS: Final = {
    "spark": ("spark", "gateway/kafka/test_spark.py"),
    "java": (
        "gateway/kafka/test_java_tools.py",
        "gateway/rpc/test_go_client.py",
        "gateway/rpc/test_java_client.py",
        "gateway/soak/test_soak.py",
        "gateway/kafka/test_spark.py",
        "acceptance",
        "bookkeeper/test_dlog_with_java.py",
        "bookkeeper/serving/test_tls_with_java.py",
        "bookkeeper/serving/test_with_java.py",
        "bookkeeper/test_pulsar_with_java.py",
        "bookkeeper/test_with_java.py",
        "tutorial",
        "cluster/test_disaster.py",
        "cluster/zookeeper",
        "spark/test_topics.py",
    ),
    "slow": (
        "acceptance",
        "alerts/test_drills.py",
        "alerts/test_promql.py",
        "bench",
        "bookkeeper/serving/test_tls_with_java.py",
        "bookkeeper/serving/test_with_java.py",
        "bookkeeper/test_apache_bookie.py",
        "bookkeeper/test_connect.py",
        "bookkeeper/test_dlog_logs.py",
        "bookkeeper/test_dlog_with_java.py",
        "bookkeeper/test_ledgers.py",
        "bookkeeper/test_pulsar_pieces.py",
        "bookkeeper/test_pulsar_topics.py",
        "bookkeeper/test_pulsar_with_java.py",
        "bookkeeper/test_with_java.py",
        "cli/test_completion.py",
        "cli/test_copying.py",
        "cli/test_descriptors.py",
        "cli/test_ending.py",
        "cli/test_exits.py",
        "cli/test_healing_switch.py",
        "cli/test_launcher.py",
        "cli/test_payloads.py",
        "cli/test_reading.py",
        "cli/test_rights.py",
        "cli/test_streams.py",
        "cli/test_table.py",
        "cli/test_top.py",
        "cluster",
        "console/test_accessibility.py",
        "console/test_app.py",
        "console/test_gateways.py",
        "console/test_leaving.py",
        "console/test_rights.py",
        "console/test_sampler.py",
        "console/test_server.py",
        "docs/test_integrations.py",
        "docs/test_pages.py",
        "docs/test_runbooks.py",
        "election/test_expired_candidates.py",
        "election/test_fences.py",
        "examples",
        "fuzz",
        "gateway/kafka/test_admin.py",
        "gateway/kafka/test_clients.py",
        "gateway/kafka/test_connection.py",
        "gateway/kafka/test_former_coordinators.py",
        "gateway/kafka/test_java_tools.py",
        "gateway/kafka/test_nodes.py",
        "gateway/kafka/test_offsets.py",
        "gateway/kafka/test_spark.py",
        "gateway/rpc/test_go_client.py",
        "gateway/rpc/test_java_client.py",
        "gateway/soak/test_soak.py",
        "gateway/rpc/test_service.py",
        "gateway/test_app.py",
        "gateway/test_elections.py",
        "gateway/test_owners.py",
        "gateway/test_rights.py",
        "gateway/test_server.py",
        "healing/test_audit.py",
        "healing/test_costs.py",
        "healing/test_spread.py",
        "judges",
        "ledger/test_long_trouble.py",
        "ledger/test_recovery_fuzz.py",
        "ledger/test_shards.py",
        "ledger/test_stretching.py",
        "log/cold",
        "log/leader/test_takeover_crashes.py",
        "log/maintenance/test_doomed.py",
        "log/reading/test_gaps_at_start.py",
        "metadata/test_restore.py",
        "metadata/test_upgrade.py",
        "metastore/test_sqlite.py",
        "metastore/test_sqlite_thread.py",
        "netns",
        "repair",
        "sandbox",
        "sim",
        "spark",
        "spec/test_files.py",
        "spec/test_model.py",
        "spec/test_modules.py",
        "sql/test_consume.py",
        "sql/test_contract.py",
        "sql/test_django.py",
        "sql/test_kills.py",
        "sql/test_outbox.py",
        "sql/test_sync.py",
        "storage/disk/test_shortage.py",
        "storage/entries/test_listing.py",
        "storage/entries/test_read_path.py",
        "storage/entries/test_reserve.py",
        "storage/identity",
        "storage/maintenance/test_collection_process.py",
        "storage/maintenance/test_compaction.py",
        "storage/maintenance/test_full_collection.py",
        "storage/offline/test_salvage.py",
        "storage/serving",
        "storage/test_crash_images.py",
        "storage/test_crash_points.py",
        "storage/test_full_disk.py",
        "storage/test_fuzz.py",
        "storage/test_node_on_local_disk.py",
        "storage/test_server.py",
        "storage/test_waiting_for_the_store.py",
        "sync/test_exit.py",
        "sync/test_forks.py",
        "sync/test_portal.py",
        "table",
        "test_cancellation.py",
        "test_client.py",
        "test_extras.py",
        "test_language.py",
        "test_readme.py",
        "test_records.py",
        "test_unknown_fields.py",
        "testing/sim/test_bank.py",
        "testing/sim/test_world.py",
        "testing/test_page.py",
        "testing/test_plugin.py",
        "tracing/test_messages.py",
        "tutorial",
        "wire/test_forks.py",
        "wire/test_framed.py",
        "wire/test_fuzz.py",
        "wire/test_hello.py",
        "wire/test_link_breaking.py",
        "wire/test_link_limits.py",
        "wire/test_slow_requests.py",
        "wire/test_tls_layer.py",
        "wire/test_tls_ports.py",
        "wire/test_tls_rotation.py",
    ),
    "campaign": ("cluster/test_autorecovery.py",),
    "root": ("netns", "sandbox"),
    "browser": ("browser",),
}
"""Marks by place, so that no file can forget its own. A test of ZooKeeper is marked by its name.

The quick tests may use 60 seconds of processors, their collection included. A test with many seeds
marks all but the first few as slow (tests/support/seeds.py). What has the mark `campaign` is slow,
too: `make campaigns` runs it, and `make test` does not.
"""

# As quire does it, for those tests that import gRPC before quire.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# The tests do not read the configuration file of their user. Nothing makes the directory: a test
# of the structure fails when a program wrote its settings there.
os.environ["XDG_CONFIG_HOME"] = str(TESTS / NO_CONFIGURATION)

settings.register_profile("quire", deadline=None, print_blob=True, max_examples=40)
settings.register_profile("quick", settings.get_profile("quire"), max_examples=10)
settings.register_profile("campaign", settings.get_profile("quire"), max_examples=500)
settings.load_profile("quire")

# What is ignored is inherited by every process that is started; what is handled is not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where slow tests are left out, and more in campaigns. Quick tests stretch
    passwords cheaply.
    """
    if re.match(r"campaign\b", config.option.markexpr):
        settings.load_profile("campaign")
    if "slow" in left_out(config):
        settings.load_profile("quick")
        from tests.support.stretching import stretch_cheaply

        stretch_cheaply()


def left_out(config: pytest.Config) -> list[str]:
    """The marks whose tests the expression after `-m` leaves out in any case."""
    expression = config.option.markexpr
    return [] if re.search(r"\bor\b|[()]", expression) else re.findall(r"\bnot (\w+)", expression)


def marks_of(place: str) -> Iterator[str]:
    """The marks that a file or a directory of tests has by its place."""
    for mark, places in MARKS.items():
        if any(place == each or place.startswith(f"{each}/") for each in places):
            yield mark


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files all of whose tests the expression after `-m` leaves out."""
    if TESTS not in collection_path.parents:
        return None
    place = collection_path.relative_to(TESTS).as_posix()
    return True if set(marks_of(place)) & set(left_out(config)) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by the place where it stands."""
    for item in items:
        place = place_of(item)
        for mark in marks_of(place):
            item.add_marker(mark)
        if item.get_closest_marker("campaign"):
            item.add_marker("slow")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
        subject = getattr(item, "callspec", None) and item.name.partition("[")[2]
        if place.startswith(("contract/", "election/")) and subject and not in_memory(subject):
            item.add_marker("slow")  # a port over a disk, a file or a connection
        if "zookeeper" in item.nodeid.lower():
            item.add_marker("java")
    items.sort(key=lambda item: turn_of(place_of(item)))


def in_memory(subject: str) -> bool:
    """Whether the subject of a contract, with which a test's parameters begin, has only memory."""
    return "memory" in subject and not subject.startswith(("framed-", "remote-"))


def place_of(item: pytest.Item) -> str:
    """Return the file of a test below the directory of tests, empty when it stands elsewhere."""
    return item.path.relative_to(TESTS).as_posix() if TESTS in item.path.parents else ""


def turn_of(place: str) -> int:
    """Return when a place's turn comes: its number in `FIRST`, of which the longest name counts."""
    found = [each for each in FIRST if place == each or place.startswith(f"{each}/")]
    return FIRST.index(max(found, key=len)) if found else len(FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule | None:
    """Keep tests together that share what is slow to start (tests/support/schedule.py)."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.schedule import Schedule

    return Schedule(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the 13,000 tests and what they import out of every later collection of garbage.

    Each whole collection would walk all of them: that took a twelfth of the processor's time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


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
