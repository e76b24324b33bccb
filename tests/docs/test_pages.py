"""Every program and every command of the README and the how-to pages runs as it stands, and shows
what the page says (tests/docs/pages.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import quire.sync
from quire.sync import SyncLocalCluster
from tests.docs.pages import INTEGRATIONS, ROOT, play, steps
from tests.support.postgres import Postgres, postgres

DOCS = ROOT / "docs"
HOW_TO = [page for page in (DOCS / "how-to").glob("*.md") if page.stem not in INTEGRATIONS]
PAGES = [ROOT / "README.md", DOCS / "index.md", *sorted(HOW_TO)]
NOT_RUN = {"README.md": 5, "spark.md": 3, "deploy.md": 2, "outbox.md": 1}
"""Steps with a reason not to run, by page."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("pages")
    with SyncLocalCluster(directory / "quire-data", bookies=3):
        yield directory


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def directory(cluster: Path, server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the cluster, which has no log. psycopg connects to an empty schema."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    with quire.sync.connect(str(cluster / "quire-data")) as client:
        for name in client.list_logs():
            client.delete_log(name)
    monkeypatch.chdir(cluster)
    return cluster


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(
    page: Path, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    play(page, directory, capfd)


def test_the_steps_that_do_not_run_are_counted() -> None:
    found = {page.name: sum(step.reason is not None for step in steps(page)) for page in PAGES}
    assert {name: count for name, count in found.items() if count} == NOT_RUN


def test_no_block_of_python_is_left_out() -> None:
    for page in PAGES:
        blocks = page.read_text(encoding="utf-8").count("```python")
        assert sum(step.program is not None for step in steps(page)) == blocks, page


def test_only_the_list_of_pages_has_no_step() -> None:
    assert [page for page in PAGES if not steps(page)] == [DOCS / "how-to" / "index.md"]
