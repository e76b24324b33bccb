"""What the simulator does not run, by name, each with the tests that stand in for it.

A module is reached when a few seeds call a function of it. One that is not must be listed, so that
nobody takes it for simulated; one that is listed and reached, or gone, must be struck out.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Final

import pytest

import quire
from tests.sim.run import run_seed

ROOT: Final = Path(quire.__file__).parent
TESTS: Final = Path(__file__).resolve().parents[1]

RUNS: Final = (
    *(("ledger", seed) for seed in (0, 1, 2, 3, 12, 20)),
    *(("log", seed) for seed in (0, 1, 2, 5, 14, 29, 45)),
    *(("election", seed) for seed in (5, 7)),
    *(("service", seed) for seed in (5, 7)),
    ("numbered", 0),
    *(("deletion", seed) for seed in (1, 5)),
    ("exile", 1),
    ("gap", 0),
    ("restored", 0),
    ("pages", 0),
    *(("healing", seed) for seed in (1, 3)),
)
"""Short seeds that together reach whatever is reached in hundreds, whichever Python runs them."""

UNREACHED: Final = {
    "aio/loops.py": "aio/test_loops.py",
    "admin.py": "test_admin.py",
    "columns.py": "test_scan.py",
    "errors/gateways.py": "spark/test_asking_gateways.py",
    "errors/peers.py": "wire/test_hello.py",
    "errors/sql.py": "sql",
    "gateway": "gateway",
    "healing/auditor.py": "healing/test_auditor.py",
    "healing/figures.py": "healing/test_figures.py",
    "healing/naming.py": "healing/test_naming.py",
    "healing/reasons.py": "healing/test_reasons.py",
    "healing/rolling.py": "healing/test_rolling.py",
    "healing/wishes.py": "healing/test_wishes.py",
    "leading.py": "test_leading.py",
    "ledger/end_watch.py": "log/reading/test_ends.py",
    "ledger/screening.py": "ledger/test_screening.py",
    "ledger/stretching.py": "ledger/test_stretching.py",
    "table": "table",
    "log/reading/spans.py": "log/reading/test_spans.py",
    "log/leader/tables.py": "log/leader/test_tables.py",
    "log/leader/numbering.py": "gateway/kafka/test_numbers.py",
    "log/records/arrow_rows.py": "log/leader/test_tables.py",
    "log/records/attribute_json.py": "gateway/test_bodies.py",
    "log/maintenance/advancing.py": "log/maintenance/test_advancing.py",
    "log/maintenance/job_info.py": "log/maintenance/test_job_info.py",
    "log/maintenance/parts.py": "log/maintenance",
    "log/manifest/info.py": "log/manifest",
    "log/manifest/known.py": "log/reading/test_ends.py",
    "log/reading/ends.py": "log/reading/test_ends.py",
    "log/manifest/holder.py": "log/manifest/test_holder.py",
    "metadata/upgrade.py": "metadata/test_upgrade.py",
    "metastore/members.py": "metastore/test_levels.py",
    "metastore/metered.py": "metrics",
    "metrics/client.py": "metrics",
    "metrics/families.py": "metrics",
    "metrics/figures.py": "storage/serving/test_metrics.py",
    "metrics/table.py": "metrics",
    "scan.py": "test_scan.py",
    "tls_files.py": "test_tls_files.py",
    "tracing/opentelemetry.py": "tracing",
    "aio/accepting.py": "test_http_server.py",
    "wire/descriptors.py": "gateway/test_server.py",
    "wire/hello.py": "wire/test_hello.py",
    "errors/certificates.py": "wire/test_tls_ports.py",
    "wire/certificates.py": "wire/test_certificates.py",
    "wire/channel.py": "wire/test_tls_ports.py",
    "wire/grpc_calls.py": "storage/serving/test_shares.py",
    "wire/grpc_tls.py": "wire/test_tls_ports.py",
    "wire/identity.py": "wire/test_identity.py",
    "wire/issuing.py": "wire/test_certificates.py",
    "wire/inbox.py": "wire/test_inbox.py",
    "wire/tls.py": "wire/test_tls_layer.py",
    "wire/tls_layer.py": "wire/test_tls_layer.py",
    "bench": "bench",
    "bookkeeper": "bookkeeper",
    "cli": "cluster/test_commands.py",
    "client.py": "cluster",
    "client_logs.py": "cluster",
    "connection.py": "cluster",
    "cluster": "cluster",
    "directory_lock.py": "test_directory_lock.py",
    "private_files.py": "test_private_files.py",
    "leaving.py": "test_leaving.py",
    "ledger/links.py": "testing",
    "ledger/observed_store.py": "spec/test_files.py",
    "metastore/shared.py": "testing",
    "metastore/sqlite_path.py": "metastore/test_open_store.py",
    "observer.py": "spec/test_files.py",
    "opening.py": "test_opening.py",
    **{f"testing/{name}.py": "testing" for name in ("bookie", "cluster", "link", "processes")},
    "testing/plugin.py": "testing/test_plugin.py",
    "testing/store.py": "testing",
    **{
        f"testing/sim/{name}.py": "testing/sim/test_world.py"
        for name in ("campaign", "inside", "lines", "run", "weather", "world")
    },
    "ledger/records.py": "contract/records",
    "ledger/remote.py": "wire",
    "ledger/freshness.py": "wire/test_tls_rotation.py",
    "metadata/archive.py": "metadata",
    "metadata/backup.py": "metadata",
    "metadata/check.py": "metadata",
    "metadata/recordless.py": "metadata",
    "metadata/logs.py": "metadata",
    "metadata/restore.py": "metadata",
    "metastore/__init__.py": "metastore/test_open_store.py",
    "metastore/place.py": "test_client.py",
    "metastore/protection.py": "storage/serving/test_store_exposure.py",
    "metastore/sqlite.py": "contract",
    "metastore/sqlite_file.py": "metastore/test_sqlite.py",
    "metastore/sqlite_waits.py": "metastore/test_sqlite_waits.py",
    "metastore/zookeeper": "contract",
    "rights/decide.py": "rights/test_decide.py",
    "rights/guard.py": "rights/test_guard.py",
    "rights/ledger_logs.py": "rights/test_guard.py",
    "rights/lockout.py": "rights/test_table.py",
    "rights/roles.py": "rights/test_decide.py",
    "rights/scopes.py": "rights/test_decide.py",
    "rights/stored.py": "rights/test_guard.py",
    "rights/table.py": "rights/test_table.py",
    "rights/watch.py": "rights/test_guard.py",
    "repair/departure.py": "repair/test_departure.py",
    "repair/directory.py": "repair/test_directory.py",
    "repair/reclaim.py": "repair/test_reclaim.py",
    "spark": "spark",
    "storage/disk/direct_io.py": "storage/disk/test_direct_io.py",
    "storage/disk/threads.py": "storage/disk/test_threads.py",
    "storage/offline/dump.py": "cluster/test_commands.py",
    "storage/identity/identity.py": "storage/identity/test_identity.py",
    "storage/disk/local.py": "contract",
    "storage/disk/local_file.py": "contract",
    "storage/ledger_system.py": "bookkeeper/serving/test_system.py",
    "storage/serving/connection_port.py": "wire",
    "storage/serving/idlers.py": "storage/serving/test_idlers.py",
    "storage/serving/metered.py": "storage/serving/test_metrics.py",
    "storage/serving/metrics.py": "storage/serving/test_metrics.py",
    "storage/serving/run_listener.py": "wire",
    "storage/serving/run_taker.py": "storage/test_direct_adds.py",
    "storage/serving/seats.py": "storage/serving/test_seats.py",
    "storage/serving/store_exposure.py": "storage/serving/test_store_exposure.py",
    "storage/serving/vitals.py": "storage/serving/test_metrics.py",
    "places.py": "gateway/test_app.py",
    "storage/server.py": "storage/test_server.py",
    "console": "console",
    "http_server.py": "gateway/test_server.py",
    "view": "view",
    "wire/exposure.py": "wire/test_exposure.py",
    "storage/serving/grpc_service.py": "wire",
    "storage/identity/spread_disk.py": "storage/identity/test_spread_disk.py",
    "sql": "sql",
    "sync": "sync",
    "tracing/messages.py": "tracing/test_messages.py",
    "wire/framed.py": "wire",
    "wire/peer_sockets.py": "wire/test_peer_sockets.py",
    "wire/run_calls.py": "wire",
    "wire/transport.py": "wire",
    "version.py": "test_compiling.py",
}
"""Module or beginning of names in quire: the tests, below this repository's."""

NOTHING_TO_RUN: Final = {
    "ledger/subscription.py",
    "metastore/fence.py",
    "metastore/store.py",
    "wire/bookie_pb2_grpc.py",
}
"""Ports, and code that was generated."""


def called(run: Callable[[], None]) -> set[str]:
    """Return the modules of quire of which a function is called while `run` runs.

    By the profiler in C: the runs make millions of calls, and a function in Python would be called
    at each.
    """
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run)
    codes = [entry.code for entry in profile.getstats() if isinstance(entry.code, CodeType)]
    prefix = f"{ROOT}/"
    return {
        code.co_filename.removeprefix(prefix)
        for code in codes
        if code.co_filename.startswith(prefix) and code.co_name != "<module>"
    }


def run_all() -> None:
    for workload, seed in RUNS:
        run_seed(seed, workload)


def modules_with_functions() -> set[str]:
    return {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if "def " in path.read_text()
    }


@pytest.mark.timeout(600)
def test_what_is_not_simulated_is_listed_with_the_tests_that_stand_in() -> None:
    reached = called(run_all)
    unreached = modules_with_functions() - reached
    assert unreached >= NOTHING_TO_RUN, "said to have nothing to run, but it has, or is gone"
    unreached -= NOTHING_TO_RUN
    listed = {path for path in unreached if path.startswith(tuple(UNREACHED))}
    assert unreached - listed == set(), "neither simulated nor listed with its tests"
    assert [path for path in reached if path.startswith(tuple(UNREACHED))] == []
    idle = [name for name in UNREACHED if not any(path.startswith(name) for path in unreached)]
    assert idle == [], "listed as not simulated, but it is, or is gone"
    assert [each for each in UNREACHED.values() if not (TESTS / each).exists()] == []
