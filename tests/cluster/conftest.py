"""One cluster, run by `quire cluster up`, for all tests that do not break it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import RunningCluster, cluster_up


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("cluster") / "data"
    with cluster_up(directory, bookies=3) as running:
        yield running
